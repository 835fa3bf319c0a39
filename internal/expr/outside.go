package expr

import (
	"regexp"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Key names a key of a store of keys.
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// validName matches the names of secrets and variables, and longer ones.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ValidName reports whether a secret or a variable may have a name. Such a name has no slash and is neither . nor .., so
// that it can be part of a path.
func ValidName(name string) bool { return len(name) <= 128 && validName.MatchString(name) }

// literalName returns the argument of get_secret and get_variable. The error does not quote the argument, which may be the
// secret itself.
func (b *builder) literalName(n *ast.CallNode) (name string, ok bool) {
	literal, ok := n.Arguments[0].(*ast.StringNode)
	switch {
	case !ok:
		b.fail(n.Arguments[0], "the name must be a literal text, in quotes")
	case !ValidName(literal.Value):
		b.fail(literal, "the name must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	default:
		return literal.Value, true
	}
	return "", false
}

func (b *builder) secret(n *ast.CallNode) operand {
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	if len(n.Arguments) > 1 {
		argument, _ := n.Arguments[1].(*ast.StringNode)
		if argument == nil || owners[argument.Value] == (owner{}) {
			return b.fail(n.Arguments[1], "whose secret it is must be written 'tenant' or 'user'")
		}
		o := owners[argument.Value]
		name = o.directory + anyone + "/" + name
		b.Subject = append(b.Subject, o.subject)
	}
	b.Secrets, b.Secret = append(b.Secrets, name), true
	called := SecretCall(name)
	return b.lookup(n, func(r *Run) string {
		value, err := r.Values.Secret(name)
		if err != nil {
			panic(&Error{Column: r.column, Message: called, Err: err})
		}
		if strings.TrimSpace(value) == "" {
			panic(r.failure("%s: the secret is empty or blank", called))
		}
		return value
	})
}

// key compiles get_key, which has to be the whole expression, because such a key has no text.
func (b *builder) key(n *ast.CallNode) operand {
	if n != b.root {
		return b.fail(n, "get_key must stand alone: such a key stays in its store, and has no text")
	}
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	key := &Key{Name: name}
	if len(n.Arguments) > 1 {
		version, literal := n.Arguments[1].(*ast.IntegerNode)
		if !literal || version.Value < 1 || version.Value > 1<<31-1 {
			return b.fail(n.Arguments[1], "the version must be a literal number from 1")
		}
		key.Version = version.Value
	}
	b.Key = key
	column := b.columnOf(n)
	return operand{Text, func(r *Run) any {
		r.column = column
		panic(r.failure("get_key('%s') has no text", name))
	}}
}

// variable compiles get_variable. If optional is true, a missing variable is empty text and not an error.
func (b *builder) variable(n *ast.CallNode, optional bool) operand {
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	b.Variables = append(b.Variables, name)
	return b.lookup(n, func(r *Run) string {
		value, ok := r.Values.Variable(name)
		if !ok && !optional {
			panic(r.failure("get_variable('%s'): there is no such variable", name))
		}
		return value
	})
}

// lookup returns an operand whose value is a text from outside of the expression.
func (b *builder) lookup(n ast.Node, get func(*Run) string) operand {
	column := b.columnOf(n)
	return operand{Text, func(r *Run) any {
		r.enter(column)
		value := get(r)
		r.bound(len(value), r.limits.Text)
		return value
	}}
}
