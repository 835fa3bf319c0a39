package expr

import (
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// value compiles a name or a member. If optional is true, a missing value is empty text and not an error.
func (b *builder) value(n ast.Node, output, optional bool) operand {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if l, ok := b.local(n.Value); ok {
			return operand{l.kind, func(r *Run) any { return r.slots[l.slot] }}
		}
		return b.input(n, "", n.Value, optional)
	case *ast.MemberNode:
		group, inGroup := b.group(n.Node)
		name, literal := n.Property.(*ast.StringNode)
		switch {
		case inGroup && literal:
			return b.input(n, group, name.Value, optional)
		case !b.Bodies:
			return b.fail(n, "only user has fields, and they are literal names; a secret, also one of the environment, is get_secret('NAME')")
		case inGroup:
			return b.fail(n, "%s takes a literal name", group)
		}
		return b.member(n, output)
	}
	return operand{}
}

func (b *builder) local(name string) (l local, ok bool) {
	for _, l := range b.locals {
		if l.name == name {
			return l, true
		}
	}
	return local{}, false
}

// group returns the path of a node, such as request or request.query, and reports whether it is a group of names.
func (b *builder) group(n ast.Node) (path string, ok bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		_, isLocal := b.local(n.Value)
		return n.Value, b.Group(n.Value) && !isLocal
	case *ast.MemberNode:
		above, inGroup := b.group(n.Node)
		name, literal := n.Property.(*ast.StringNode)
		if inGroup && literal {
			return above + "." + name.Value, b.Group(above + "." + name.Value)
		}
	}
	return "", false
}

// person records that the expression names a field of the user, or the tenant if field is "".
func (b *builder) person(field string) {
	if field == "" {
		b.Tenant = true
	} else {
		b.User = append(b.User, field)
	}
}

// input compiles a name whose value the run provides.
func (b *builder) input(n ast.Node, group, name string, optional bool) operand {
	if get, missing := subject(group, name); get != nil {
		if name == UserToken {
			if b.Bodies {
				return b.fail(n, "user.token is not available here: the user's token goes to token endpoints only")
			}
			b.Secret = true
		}
		b.person(strings.TrimPrefix(name, "tenant_id"))
		return b.lookup(n, name, func(r *Run) (string, error) {
			value := get(r)
			if value == "" && !optional {
				panic(r.failure("%s", missing))
			}
			return value, nil
		})
	}
	found, problem := b.Name(group, name)
	if f, isFunction := functions[name]; problem != "" && isFunction && group == "" && (f.templates || b.Bodies) {
		problem = name + " is a function: write " + name + "(…)"
	}
	if problem != "" {
		return b.fail(n, "%s", problem)
	}
	column := b.columnOf(n)
	return operand{found.Kind, func(r *Run) any {
		r.enter(column)
		value, err := found.Get(r)
		r.column = column // Get may have decoded a document
		r.must(err)
		return value
	}}
}

// absent is the value of a?.b if a is null, and of all further members in the chain, whose value is null.
type absent struct{}

func (b *builder) chain(n *ast.ChainNode, output bool) operand {
	o, column := b.build(n.Node, output), b.columnOf(n)
	return operand{Any, func(r *Run) any {
		value := o.run(r)
		r.enter(column)
		if value == (absent{}) {
			return nil
		}
		return value
	}}
}

func (b *builder) member(n *ast.MemberNode, output bool) operand {
	object, key := b.build(n.Node, false), b.build(n.Property, false)
	column, optional := b.columnOf(n.Property), n.Optional
	return operand{Any, func(r *Run) any {
		value := object.run(r)
		name := key.run(r)
		r.enter(column)
		return r.member(value, name, optional, output)
	}}
}

// member returns a member of an object or an element of a list. If optional is true, a member of null is absent.
func (r *Run) member(object, key any, optional, output bool) (value any) {
	var exact Number
	switch of := object.(type) {
	case absent:
		return of
	case nil:
		if optional {
			return absent{}
		}
		panic(r.failure("null has no members: where it may be null, write ?. for the dot"))
	case *Object:
		name, ok := key.(string)
		if !ok {
			panic(r.failure("the members of an object are named by texts"))
		}
		r.read(len(name) + len(of.order))
		value, _ = of.find(name)
		exact = of.numbers[name]
	case *List:
		i, ok := key.(int64)
		if !ok {
			panic(r.failure("the elements of a list are numbered"))
		}
		if i < 0 {
			i += int64(len(of.elements))
		}
		if i < 0 || i >= int64(len(of.elements)) {
			panic(r.failure("the list has no such element"))
		}
		value, exact = of.elements[i], of.numbers[int(i)]
	default:
		panic(r.failure("only objects and lists have members"))
	}
	if output && exact != "" {
		return exact
	}
	return value
}

// slice compiles a[from:to]. Either bound may be omitted.
func (b *builder) slice(n *ast.SliceNode) operand {
	object := b.build(n.Node, false)
	bounds := [2]operand{constant(Null, nil), constant(Null, nil)}
	for i, bound := range []ast.Node{n.From, n.To} {
		if bound != nil {
			bounds[i] = b.build(bound, false)
		}
	}
	column := b.columnOf(n)
	return operand{Any, func(r *Run) any {
		value := object.run(r)
		args := [2]any{bounds[0].run(r), bounds[1].run(r)}
		r.enter(column)
		return r.slice(value, args)
	}}
}

// slice returns the part of a list or text between two bounds. Text is counted in runes. A null bound means the beginning or
// the end, and a negative bound counts from the end.
func (r *Run) slice(value any, args [2]any) any {
	l, isList := value.(*List)
	s, isText := value.(string)
	var length int
	switch {
	case isText:
		r.read(len(s))
		length = utf8.RuneCountInString(s)
	case isList:
		length = len(l.elements)
	default:
		panic(r.failure("only lists and texts have parts"))
	}
	bounds := [2]int{0, length}
	for i, bound := range args {
		n, ok := bound.(int64)
		switch {
		case bound == nil:
			continue
		case !ok:
			panic(r.failure("the bounds of a part are whole numbers"))
		case n < 0:
			n += int64(length)
		}
		bounds[i] = int(min(max(n, 0), int64(length)))
	}
	from, to := min(bounds[0], bounds[1]), bounds[1]
	switch {
	case isText:
		return s[byteOffset(s, from):byteOffset(s, to)]
	case from == 0 && to == length:
		return l
	}
	return &List{elements: l.elements[from:to]}
}
