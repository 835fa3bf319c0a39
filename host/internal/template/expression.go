package template

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"

	"github.com/keywright/keywright/internal/exprscan"
)

// eval evaluates an expression to a string, int64, float64, bool, document or nil.
type eval func(*rendering) (any, *Error)

// kind is the set of types that a value may turn out to have. A part of an expression that has an error has the empty
// set, which satisfies every demand, so that one mistake is reported once.
type kind uint8

const (
	text kind = 1 << iota
	integer
	decimal
	boolean
	structure // an array or an object, as a document
	null

	number = integer | decimal
	scalar = text | number | boolean
)

// is reports whether a value of kind k always is what allowed demands.
func (k kind) is(allowed kind) bool { return k&^allowed == 0 }

// operand is a compiled part of an expression.
type operand struct {
	kind kind
	run  eval
}

// expression is the result of compileExpression.
type expression struct {
	run    eval
	secret bool
	names  Names // in the order of the source, and as often
}

// builder compiles one expression and collects what is wrong with it.
type builder struct {
	expression
	column int // of the first rune behind the braces
	seen   map[ast.Node]bool
	errs   []*Error
}

// disabled are now and the others of the language's own functions: they are names like any other.
var disabled = func() map[string]bool {
	all := map[string]bool{}
	for name := range builtin.Index {
		all[name] = true
	}
	return all
}()

func compileExpression(p exprscan.Piece) (expression, []*Error) {
	tree, problem := p.Parse(&conf.Config{MaxNodes: conf.DefaultMaxNodes, Disabled: disabled})
	if problem != nil {
		return expression{}, []*Error{{Column: problem.Column, Message: problem.Message}}
	}
	b := &builder{column: p.Column, seen: map[ast.Node]bool{}}
	whole := b.build(tree.Node)
	b.demand(tree.Node, whole, scalar, "an expression gives a text, a number or a boolean")
	b.run = whole.run
	return b.expression, b.errs
}

// at returns the column of a node. The parser puts a.b at its b.
func (b *builder) at(n ast.Node) int {
	if member, ok := n.(*ast.MemberNode); ok {
		return b.at(member.Node)
	}
	return b.column + n.Location().From
}

// fail records an error. The operand that it gives is never run.
func (b *builder) fail(n ast.Node, format string, arguments ...any) operand {
	b.errs = append(b.errs, &Error{Column: b.at(n), Message: fmt.Sprintf(format, arguments...)})
	return operand{}
}

func (b *builder) demand(n ast.Node, o operand, allowed kind, format string, arguments ...any) {
	if !o.kind.is(allowed) {
		b.fail(n, format, arguments...)
	}
}

// build is the allow-list of the language: what has no case here is refused.
func (b *builder) build(n ast.Node) operand {
	// The parser turns a < b < c and a ?: b into trees in which a node stands twice. Nested, they grow exponentially
	// for whoever walks them.
	if b.seen[n] {
		return b.fail(n, "comparisons in a chain and ?: are not available")
	}
	b.seen[n] = true

	switch n := n.(type) {
	case *ast.StringNode:
		return constant(text, n.Value)
	case *ast.IntegerNode:
		return constant(integer, int64(n.Value))
	case *ast.FloatNode:
		return constant(decimal, n.Value)
	case *ast.BoolNode:
		return constant(boolean, n.Value)
	case *ast.NilNode:
		return constant(null, nil)
	case *ast.IdentifierNode, *ast.MemberNode:
		return b.required(n)
	case *ast.CallNode:
		return b.call(n)
	case *ast.BuiltinNode: // all, filter, map and others with a syntax of their own
		return b.fail(n, "unknown function %s: %s", exprscan.Quote(n.Name), knownFunctions)
	case *ast.UnaryNode:
		return b.unary(n)
	case *ast.BinaryNode:
		return b.binary(n)
	case *ast.ConditionalNode:
		return b.conditional(n)
	case *ast.ArrayNode:
		return b.array(n)
	case *ast.MapNode:
		return b.object(n)
	}
	return b.fail(n, "this is not available in templates")
}

func constant(k kind, value any) operand {
	return operand{k, func(*rendering) (any, *Error) { return value, nil }}
}

// lookup is a value that may be missing: what default replaces as its first operand, and what is an error elsewhere.
type lookup struct {
	find    func(Values) (value string, ok bool)
	missing string // the error's message
}

// isLookup reports whether n is a variable, or a call of get_variable.
func isLookup(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		return true
	case *ast.CallNode:
		return name(n) == "get_variable" && len(n.Arguments) == 1
	}
	return false
}

// lookup compiles what isLookup accepts. Without ok, it is wrong and reported.
func (b *builder) lookup(n ast.Node) (l lookup, ok bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return b.identifier(n)
	case *ast.MemberNode:
		return b.member(n)
	case *ast.CallNode:
		return b.variable(n)
	}
	return lookup{}, false
}

// required compiles a lookup whose value must be there.
func (b *builder) required(n ast.Node) operand {
	l, ok := b.lookup(n)
	if !ok {
		return operand{}
	}
	column := b.at(n)
	return operand{text, func(r *rendering) (any, *Error) {
		value, ok := l.find(r)
		if !ok {
			return nil, &Error{Column: column, Message: l.missing}
		}
		return limited(column, value)
	}}
}

func (b *builder) identifier(n *ast.IdentifierNode) (l lookup, ok bool) {
	switch n.Value {
	case "tenant_id":
		b.names.Tenant = true
		return lookup{
			find:    func(v Values) (string, bool) { return v.TenantID(), v.TenantID() != "" },
			missing: "tenant_id is missing: the request has no tenant",
		}, true
	case "user":
		b.fail(n, "user is no value: name a field of it, such as user.email")
	default:
		if _, known := functionNamed(n.Value); known {
			b.fail(n, "%s is a function: write %s(…)", n.Value, n.Value)
		} else {
			b.fail(n, "unknown variable %s: %s", exprscan.Quote(n.Value), knownVariables)
		}
	}
	return lookup{}, false
}

func (b *builder) member(n *ast.MemberNode) (l lookup, ok bool) {
	object, isName := n.Node.(*ast.IdentifierNode)
	property, isLiteral := n.Property.(*ast.StringNode)
	if !isName || object.Value != "user" || !isLiteral {
		b.fail(n, "only user has fields, and they are literal names")
		return lookup{}, false
	}
	field, known := userFields[property.Value]
	if !known {
		b.fail(n, "unknown variable %s: %s", exprscan.Quote("user."+property.Value), knownVariables)
		return lookup{}, false
	}
	b.names.User = append(b.names.User, property.Value)
	return lookup{
		find: func(v Values) (string, bool) {
			if v.User() == nil {
				return "", false
			}
			value := field(v.User())
			return value, value != ""
		},
		missing: "user." + property.Value + " is missing: the request has no user, or the user's field is empty",
	}, true
}

func (b *builder) conditional(n *ast.ConditionalNode) operand {
	if !n.Ternary { // the node itself has no location
		return b.fail(n.Cond, "if is not available: write condition ? one : other")
	}
	condition, one, other := b.build(n.Cond), b.build(n.Exp1), b.build(n.Exp2)
	b.demand(n.Cond, condition, boolean, "the condition is no boolean")
	return operand{one.kind | other.kind, func(r *rendering) (any, *Error) {
		yes, err := condition.run(r)
		switch {
		case err != nil:
			return nil, err
		case yes.(bool):
			return one.run(r)
		}
		return other.run(r)
	}}
}
