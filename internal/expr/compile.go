package expr

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"

	"github.com/keywright/keywright/internal/problem"
)

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	// Names are in the order of the source, with repetitions. A secret of a tenant or a user adds the one with its id.
	Names
	// Kind is the kind of the expression's value.
	Kind Kind
	// Column is the column of the operator or name that is evaluated last. Start is the column of the first token.
	Column, Start int
	// Key is the key that the expression names, if it is a call of get_key. It is nil otherwise. Such an expression has no
	// value, so it must not be evaluated.
	Key *Key
	// Secret reports whether the expression names a secret, the user's token or an identity.
	Secret bool

	run eval
	// slots is the number of a run's slots that lets and rounds use.
	slots int
}

type eval func(*Run) any

type operand struct {
	kind Kind
	run  eval
}

// builder compiles one expression and collects its errors.
type builder struct {
	*Language
	Expression
	// column is the column of the expression's first rune.
	column   int
	root     ast.Node
	visited  map[ast.Node]bool
	locals   []local
	rounds   []*round
	patterns *Source
	errs     []*Error
}

// local is a name that let declares.
type local struct {
	name string
	kind Kind
	slot int
}

// Compile compiles an expression. It adds the costs of the expression's patterns to those of their source.
func (l *Language) Compile(p Piece, patterns *Source) (*Expression, []*Error) {
	tree, wrong := p.parse(parsed)
	if wrong != nil {
		if l.Bodies && wrong.near == "=" {
			wrong.Message += ": == is for comparing"
		}
		if l.Bodies && wrong.near == ":" {
			wrong.Message += ": an object that map makes stands in parentheses, as in map(list, ({name: .name}))"
		}
		return nil, []*Error{wrong}
	}
	b := &builder{Language: l, column: p.Column, visited: map[ast.Node]bool{}, patterns: patterns, root: tree.Node}
	root := b.build(tree.Node, true)
	b.Kind, b.run = root.kind, root.run
	b.Column, b.Start = b.columnOf(tree.Node), p.Column+p.tokens[0].From
	e := b.Expression
	return &e, b.errs
}

// columnOf returns the column of a node's first operand, because the parser places a.b at its b and a conditional at its end.
func (b *builder) columnOf(n ast.Node) int {
	switch n := n.(type) {
	case *ast.MemberNode:
		return b.columnOf(n.Node)
	case *ast.ChainNode:
		return b.columnOf(n.Node)
	case *ast.ConditionalNode:
		return b.columnOf(n.Cond)
	}
	return b.column + n.Location().From
}

// fail records an error. It returns an operand without a kind, which is never run.
func (b *builder) fail(n ast.Node, format string, arguments ...any) operand {
	b.errs = append(b.errs, &Error{Column: b.columnOf(n), Message: fmt.Sprintf(format, arguments...)})
	return operand{}
}

// demand records an error unless a value is of one of the allowed kinds. In bodies, it is enough that the value can be.
func (b *builder) demand(n ast.Node, o operand, mask Kind, format string, arguments ...any) {
	if b.Bodies && !o.kind.May(mask) || !b.Bodies && !o.kind.Is(mask) {
		b.fail(n, format, arguments...)
	}
}

// build compiles a node. It is the allow-list of the language: a node without a case here is refused. output reports
// whether the value is written to JSON or text unchanged, so that numbers keep their text.
func (b *builder) build(n ast.Node, output bool) operand {
	// The parser turns a < b < c and a ?: b into trees with a node twice. If they are nested, walking the tree takes exponential time.
	if b.visited[n] {
		return b.fail(n, "comparisons in a chain and ?: are not available")
	}
	b.visited[n] = true

	switch n := n.(type) {
	case *ast.StringNode:
		return constant(Text, n.Value)
	case *ast.IntegerNode:
		return constant(Integer, int64(n.Value))
	case *ast.FloatNode:
		return constant(Decimal, n.Value)
	case *ast.BoolNode:
		return constant(Boolean, n.Value)
	case *ast.NilNode:
		return constant(Null, nil)
	case *ast.IdentifierNode, *ast.MemberNode:
		return b.value(n, output, false)
	case *ast.CallNode:
		return b.call(n, output)
	case *ast.BuiltinNode:
		return b.builtin(n, output)
	case *ast.UnaryNode:
		return b.unary(n)
	case *ast.BinaryNode:
		return b.binary(n, output)
	case *ast.ConditionalNode:
		return b.conditional(n, output)
	case *ast.ArrayNode:
		return b.list(n, output)
	case *ast.MapNode:
		return b.object(n, output)
	}
	if b.Bodies {
		switch n := n.(type) {
		case *ast.PointerNode:
			return b.pointer(n)
		case *ast.ChainNode:
			return b.chain(n, output)
		case *ast.SliceNode:
			return b.slice(n)
		case *ast.VariableDeclaratorNode:
			return b.let(n, output)
		}
	}
	return b.unavailable(n, "this is not available here", "this")
}

// unavailable records that the language lacks a feature. The error has message in bodies, and subject in templates.
func (b *builder) unavailable(n ast.Node, message, subject string) operand {
	if b.Bodies {
		return b.fail(n, "%s", message)
	}
	return b.fail(n, "%s is not available in templates", subject)
}

func constant(k Kind, value any) operand { return operand{k, func(*Run) any { return value }} }

func (b *builder) let(n *ast.VariableDeclaratorNode, output bool) operand {
	_, isFunction := builtin.Index[n.Name]
	_, ours := functions[n.Name]
	_, isLocal := b.local(n.Name)
	name, _ := b.Name("", n.Name)
	if isFunction || ours || isLocal || n.Name[0] == '$' || name != nil || n.Name == "tenant_id" || b.Group(n.Name) {
		return b.fail(n, "%s has a meaning already: give the value another name", problem.Quote(n.Name))
	}
	value := b.build(n.Value, false)
	l := local{n.Name, value.kind, b.slots}
	b.slots++
	b.locals = append(b.locals, l)
	in := b.build(n.Expr, output)
	b.locals = b.locals[:len(b.locals)-1]
	return operand{in.kind, func(r *Run) any {
		r.slots[l.slot] = value.run(r)
		return in.run(r)
	}}
}

func (b *builder) list(n *ast.ArrayNode, output bool) operand {
	column := b.columnOf(n)
	elements := make([]operand, len(n.Nodes))
	for i, node := range n.Nodes {
		elements[i] = b.build(node, output)
	}
	return operand{ListKind, func(r *Run) any {
		r.enter(column)
		r.makeList(len(elements))
		return &List{elements: evaluateAll(r, elements)}
	}}
}

func evaluateAll(r *Run, operands []operand) []any {
	values := make([]any, len(operands))
	for i, o := range operands {
		values[i] = o.run(r)
	}
	return values
}

func (b *builder) object(n *ast.MapNode, output bool) operand {
	order := make([]string, 0, len(n.Pairs))
	values := make([]operand, 0, len(n.Pairs))
	for _, node := range n.Pairs {
		pair, ok := node.(*ast.PairNode)
		if !ok {
			return b.fail(node, "not a member of an object")
		}
		key, ok := pair.Key.(*ast.StringNode)
		switch {
		case !ok:
			return b.fail(pair.Key, "the names in an object must be literal texts")
		case slices.Contains(order, key.Value):
			return b.fail(key, "the object has this name twice")
		case !b.Bodies && !utf8.ValidString(key.Value):
			return b.fail(key, notUTF8)
		}
		order = append(order, key.Value)
		values = append(values, b.build(pair.Value, output))
	}
	column := b.columnOf(n)
	return operand{ObjectKind, func(r *Run) any {
		r.enter(column)
		r.make(512 + 32*len(order)) // approximate bytes
		return &Object{order: order, values: evaluateAll(r, values)}
	}}
}

func (b *builder) unknownFunction(n ast.Node, name string) operand {
	return b.fail(n, "unknown function %s: %s", problem.Quote(name), b.UnknownFunction(name))
}

func (b *builder) call(n *ast.CallNode, output bool) operand {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return b.fail(n, "values have no methods")
	}
	name := callee.Value
	f, exists := functions[name]
	switch {
	case b.Bodies && inTemplatesOnly[name] != "":
		return b.fail(n, "%s is not available here: %s", name, inTemplatesOnly[name])
	case !exists || !f.templates && !b.Bodies:
		return b.unknownFunction(n, name)
	case len(n.Arguments) < f.minArgs || len(n.Arguments) > f.maxArgs:
		return b.fail(n, "%s takes %s", name, f.takes)
	case name == "get_secret":
		return b.secret(n)
	case name == "get_key":
		return b.key(n)
	case name == "identity":
		return b.identity(n)
	case name == "discover":
		return b.discover(n)
	case name == "get_variable":
		return b.variable(n, false)
	case name == "default":
		return b.defaultValue(n, output)
	}
	args := make([]operand, len(n.Arguments))
	for i, argument := range n.Arguments {
		args[i] = b.build(argument, f.encodes)
		if f.kinds != nil {
			b.demand(argument, args[i], f.kinds[min(i, len(f.kinds)-1)], "%s takes %s", name, f.fits)
		}
	}
	return f.operand(b.columnOf(n), args)
}

func (f function) operand(column int, args []operand) operand {
	call, all := f.call, f.maxArgs > len(arguments{})
	return operand{f.result, func(r *Run) any {
		a := arguments{omitted{}, omitted{}, omitted{}}
		if all {
			a[0] = &List{elements: evaluateAll(r, args)}
		} else {
			for i, o := range args {
				a[i] = o.run(r)
			}
		}
		r.enter(column)
		return call(r, a)
	}}
}

// defaultValue compiles default. It replaces a first argument that is null or empty text, and one that is itself the name of
// a missing value. A value that is missing deeper in the first argument is an error, and so is any missing secret.
func (b *builder) defaultValue(n *ast.CallNode, output bool) operand {
	var value operand
	switch first := n.Arguments[0].(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		value = b.value(first, output, true)
	case *ast.CallNode:
		if callee, ok := first.Callee.(*ast.IdentifierNode); ok && callee.Value == "get_variable" && 0 < len(first.Arguments) && len(first.Arguments) <= 2 {
			value = b.variable(first, true)
			break
		}
		value = b.build(first, output)
	default:
		value = b.build(first, output)
	}
	second := b.build(n.Arguments[1], output)
	if !b.Bodies && !value.kind.May(Text) {
		return b.fail(n.Arguments[0], "default replaces missing and empty texts, and this is none")
	}
	column := b.columnOf(n)
	return operand{b.either(value.kind, second.kind), func(r *Run) any {
		found := value.run(r)
		r.enter(column)
		if found != nil && found != "" {
			return found
		}
		return second.run(r)
	}}
}
