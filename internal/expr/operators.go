package expr

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

type operator struct {
	// If templates is false, the operator is available in bodies only.
	templates bool
	// Both operands must fit the same element of sorts. In templates, lists and objects are excluded.
	sorts []Kind
	// null allows a literal nil as an operand, in bodies.
	null bool
	// takes describes sorts, for errors.
	takes string
	// result is the kind of the operator's value. If it is 0, the function arithmetic determines the kind.
	result Kind
	apply  operation
}

// operation evaluates an operator. Its errors do not quote the operands.
type operation func(r *Run, x, y any) any

const (
	oneKind        = "two values of one kind"
	twoNumbers     = "two numbers"
	textsOrNumbers = "two texts or two numbers"
)

var (
	numbers = []Kind{numeric}
	alike   = []Kind{Text, numeric, Boolean, ListKind, ObjectKind}
)

// operators are all binary operators except "and", "or", ?? and matches.
var operators = map[string]operator{
	"==": {everywhere, alike, true, oneKind, Boolean, func(r *Run, x, y any) any { return r.equal(x, y) }},
	"!=": {everywhere, alike, true, oneKind, Boolean, func(r *Run, x, y any) any { return !r.equal(x, y) }},
	"<":  order("<", func(c int) bool { return c < 0 }),
	"<=": order("<=", func(c int) bool { return c <= 0 }),
	">":  order(">", func(c int) bool { return c > 0 }),
	">=": order(">=", func(c int) bool { return c >= 0 }),

	"contains":   textTest("contains", strings.Contains),
	"startsWith": textTest("startsWith", strings.HasPrefix),
	"endsWith":   textTest("endsWith", strings.HasSuffix),
	"in":         {bodies, nil, true, "a value, and a list or an object", Boolean, in},

	"+":  {everywhere, []Kind{Text, numeric}, true, textsOrNumbers, 0, add},
	"-":  {everywhere, numbers, true, twoNumbers, 0, subtract},
	"*":  {everywhere, numbers, true, twoNumbers, 0, multiply},
	"/":  {everywhere, numbers, false, twoNumbers, Decimal, ofFloats("/", func(x, y float64) float64 { return x / y })},
	"**": {bodies, numbers, false, twoNumbers, Decimal, ofFloats("**", math.Pow)},
	"^":  {bodies, numbers, false, twoNumbers, Decimal, ofFloats("^", math.Pow)},
	"%":  {everywhere, []Kind{Integer}, false, "two integers", Integer, remainder},
}

func order(name string, test func(c int) bool) operator {
	return operator{everywhere, []Kind{Text, numeric}, true, textsOrNumbers, Boolean, func(r *Run, x, y any) any {
		if s, ok := x.(string); ok {
			if t, ok := y.(string); ok {
				r.read(min(len(s), len(t)))
				return test(strings.Compare(s, t))
			}
		}
		c, ordered, ok := compareNumbers(x, y)
		if !ok {
			panic(r.unfit(name, x, y))
		}
		return ordered && test(c)
	}}
}

// textTest returns an operator that tests two texts. The result is false if one of them is null.
func textTest(name string, test func(s, part string) bool) operator {
	return operator{everywhere, []Kind{Text}, true, "two texts", Boolean, func(r *Run, x, y any) any {
		s, ok1 := x.(string)
		part, ok2 := y.(string)
		switch {
		case x == nil || y == nil:
			return false
		case !ok1 || !ok2:
			panic(r.unfit(name, x, y))
		}
		r.read(len(s) + len(part))
		return test(s, part)
	}}
}

func (b *builder) binary(n *ast.BinaryNode, output bool) operand {
	if n.Operator == "matches" && b.Bodies {
		return b.matches(n)
	}
	output = output && n.Operator == "??"
	first, right, column := b.build(n.Left, output), b.build(n.Right, output), b.columnOf(n)
	switch n.Operator {
	case "..":
		return b.unavailable(n, "ranges are not available", "..")
	case "??":
		if !b.Bodies {
			return b.fail(n, "?? is not available: write default(value, other)")
		}
		return operand{b.either(first.kind, right.kind), func(r *Run) any {
			if value := first.run(r); value != nil {
				return value
			}
			return right.run(r)
		}}
	case "&&", "and", "||", "or":
		if !b.fits(first.kind, right.kind, operator{sorts: []Kind{Boolean}}) {
			b.fail(n, "%s takes two booleans", n.Operator)
		}
		decisive := n.Operator == "||" || n.Operator == "or"
		return operand{Boolean, func(r *Run) any {
			if first.truth(r, column) == decisive {
				return decisive
			}
			return right.run(r)
		}}
	}
	op, ok := operators[n.Operator]
	switch {
	case !ok || !op.templates && !b.Bodies:
		return b.unavailable(n, n.Operator+" is not available", n.Operator)
	case n.Operator == "in" && mayBeIn(first.kind, right.kind), b.fits(first.kind, right.kind, op):
	case !b.Bodies && op.takes == oneKind:
		return b.fail(n, "%s takes two texts, two numbers or two booleans", n.Operator)
	default:
		return b.fail(n, "%s takes %s", n.Operator, op.takes)
	}
	return apply(column, cmp.Or(op.result, arithmetic(first.kind, right.kind)), op.apply, first, right)
}

// fits reports whether an operator takes operands of the kinds x and y: in templates always, in bodies possibly.
func (b *builder) fits(x, y Kind, op operator) bool {
	accepts := func(k, sort Kind) bool { return k.May(sort) || k == Null && op.null }
	return slices.ContainsFunc(op.sorts, func(sort Kind) bool {
		return b.Bodies && accepts(x, sort) && accepts(y, sort) || !b.Bodies && (x|y).Is(sort&^structure)
	})
}

func mayBeIn(x, y Kind) bool {
	return y.May(ListKind|Null) || y.May(ObjectKind) && x.May(Text|Null)
}

// arithmetic returns the kind of the result of +, - and *.
func arithmetic(x, y Kind) Kind {
	switch both := x | y; {
	case both.Is(Text):
		return Text
	case both.Is(Integer):
		return Integer
	case both.Is(numeric) && (x == Decimal || y == Decimal):
		return Decimal
	case both.Is(numeric):
		return numeric
	}
	return Any
}

func (b *builder) unary(n *ast.UnaryNode) operand {
	o, column := b.build(n.Node, false), b.columnOf(n)
	if n.Operator == "!" || n.Operator == "not" {
		b.demand(n, o, Boolean, "%s takes a boolean", n.Operator)
		return operand{Boolean, func(r *Run) any { return !o.truth(r, column) }}
	}
	b.demand(n, o, numeric, "%s takes a number here", n.Operator)
	return operand{o.kind, func(r *Run) any {
		x := o.run(r)
		r.column = column
		if _, ok := float(x); !ok {
			panic(r.misfit())
		}
		if n.Operator == "+" {
			return x
		}
		return subtract(r, int64(0), x)
	}}
}

func (o operand) truth(r *Run, column int) bool {
	yes, ok := o.run(r).(bool)
	if !ok {
		r.column = column
		panic(r.misfit())
	}
	return yes
}

func apply(column int, result Kind, op operation, first, right operand) operand {
	return operand{result, func(r *Run) any {
		x := first.run(r)
		y := right.run(r)
		r.enter(column)
		return op(r, x, y)
	}}
}

func (b *builder) conditional(n *ast.ConditionalNode, output bool) operand {
	if !n.Ternary {
		return b.fail(n.Cond, "if is not available: write condition ? one : other")
	}
	condition, one, second := b.build(n.Cond, false), b.build(n.Exp1, output), b.build(n.Exp2, output)
	b.demand(n.Cond, condition, Boolean, "the condition is no boolean")
	column := b.columnOf(n)
	return operand{b.either(one.kind, second.kind), func(r *Run) any {
		if condition.truth(r, column) {
			return one.run(r)
		}
		return second.run(r)
	}}
}

// either returns the kind of a value that is of kind x or y. In bodies, two different kinds result in Any, so that a wrong
// kind is an error of the evaluation only.
func (b *builder) either(x, y Kind) Kind {
	switch {
	case x == 0 || y == 0:
		return 0
	case b.Bodies && x != Null && y != Null && x != y:
		return Any
	}
	return x | y
}

func in(r *Run, value, object any) any {
	switch of := object.(type) {
	case nil:
		return false
	case *List:
		return slices.ContainsFunc(of.elements, func(element any) bool { return r.equal(element, value) })
	case *Object:
		name, isText := value.(string)
		if !isText && value != nil {
			panic(r.failure("the members of an object are named by texts"))
		}
		r.read(len(name) + len(of.order))
		_, found := of.find(name)
		return found && isText
	}
	panic(r.unfit("in", value, object))
}

// equal reports whether two values are equal. An integer equals the float64 of the same value, but not inside of an object.
func (r *Run) equal(x, y any) bool {
	a, ok1 := x.(*List)
	b, ok2 := y.(*List)
	if ok1 && ok2 {
		r.call()
		return slices.EqualFunc(a.elements, b.elements, r.equal)
	}
	if c, ordered, ok := compareNumbers(x, y); ok {
		r.call()
		return ordered && c == 0
	}
	return r.identical(x, y)
}

// identical reports whether two values are equal and have the same kinds, at all depths.
func (r *Run) identical(x, y any) bool {
	r.call()
	switch a := x.(type) {
	case string:
		b, ok := y.(string)
		if !ok || len(a) != len(b) {
			return false
		}
		r.read(len(a))
		return a == b
	case Number:
		r.read(len(a))
	case *List:
		b, ok := y.(*List)
		return ok && slices.EqualFunc(a.elements, b.elements, r.identical)
	case *Object:
		b, ok := y.(*Object)
		if !ok || a.len() != b.len() {
			return false
		}
		for name, value := range a.all {
			r.read(len(name) + len(b.order))
			if element, there := b.find(name); !there || !r.identical(value, element) {
				return false
			}
		}
		return true
	}
	return x == y
}

func add(r *Run, x, y any) any {
	if s, ok := x.(string); ok {
		if t, ok := y.(string); ok {
			r.make(r.bound(len(s)+len(t), r.limits.Text))
			return s + t
		}
	}
	return r.calculate("+", x, y, func(i, j int64) (int64, bool) {
		return i + j, (i+j > i) == (j > 0)
	}, func(f, g float64) float64 { return f + g })
}

func subtract(r *Run, x, y any) any {
	return r.calculate("-", x, y, func(i, j int64) (int64, bool) {
		return i - j, (i-j < i) == (j > 0)
	}, func(f, g float64) float64 { return f - g })
}

func multiply(r *Run, x, y any) any {
	return r.calculate("*", x, y, func(i, j int64) (int64, bool) {
		return i * j, i == 0 || i*j/i == j && (i != -1 || j != math.MinInt64)
	}, func(f, g float64) float64 { return f * g })
}

// calculate applies integers to two integers, and floats to other numbers. In expr, integers wrap around. Here an overflow is
// an error, so that no wrong time gets into a token.
func (r *Run) calculate(name string, x, y any, integers func(i, j int64) (_ int64, exact bool), floats func(f, g float64) float64) any {
	i, ok1 := x.(int64)
	j, ok2 := y.(int64)
	if !ok1 || !ok2 {
		return r.floats(name, x, y, floats)
	}
	result, exact := integers(i, j)
	if !exact {
		panic(r.failure("the integer is too large"))
	}
	return result
}

func ofFloats(name string, calculate func(f, g float64) float64) operation {
	return func(r *Run, x, y any) any { return r.floats(name, x, y, calculate) }
}

func (r *Run) floats(name string, x, y any, calculate func(f, g float64) float64) any {
	f, ok1 := float(x)
	g, ok2 := float(y)
	if !ok1 || !ok2 {
		panic(r.unfit(name, x, y))
	}
	result := calculate(f, g) + 0 // turns -0 into 0
	if r.inBodies == nil && (math.IsNaN(result) || math.IsInf(result, 0)) {
		panic(r.failure("division by zero, or a number that is too large"))
	}
	return result
}

func remainder(r *Run, x, y any) any {
	i, ok1 := x.(int64)
	j, ok2 := y.(int64)
	switch {
	case !ok1 || !ok2:
		panic(r.unfit("%", x, y))
	case j == 0:
		panic(r.failure("division by zero"))
	}
	return i % j
}

// compareNumbers compares two numbers. ordered is false if one of them is NaN, and ok is false if one is not a number.
func compareNumbers(x, y any) (c int, ordered, ok bool) {
	f, ok1 := float(x)
	g, ok2 := float(y)
	i, ok3 := x.(int64)
	j, ok4 := y.(int64)
	if ok3 && ok4 {
		return cmp.Compare(i, j), true, true
	}
	return cmp.Compare(f, g), f == f && g == g, ok1 && ok2
}

func float(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}
