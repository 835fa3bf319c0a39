package template

import (
	"cmp"
	"math"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// operator is an operation on two operands of one sort.
type operator struct {
	sorts  []kind // both operands together must be one of them
	takes  string // the same in words
	result kind   // 0: text of two texts, of two numbers as arithmetic says
	apply  operation
}

// operation returns a result, or a problem that quotes no operand.
type operation func(x, y any) (result any, problem string)

var operators = map[string]operator{
	"==": comparison("two texts, two numbers or two booleans", equal, text, number, boolean),
	"!=": comparison("two texts, two numbers or two booleans", func(x, y any) bool { return !equal(x, y) }, text, number, boolean),
	"<":  comparison("two texts or two numbers", func(x, y any) bool { return order(x, y) < 0 }, text, number),
	"<=": comparison("two texts or two numbers", func(x, y any) bool { return order(x, y) <= 0 }, text, number),
	">":  comparison("two texts or two numbers", func(x, y any) bool { return order(x, y) > 0 }, text, number),
	">=": comparison("two texts or two numbers", func(x, y any) bool { return order(x, y) >= 0 }, text, number),

	"contains":   textTest(strings.Contains),
	"startsWith": textTest(strings.HasPrefix),
	"endsWith":   textTest(strings.HasSuffix),

	"+": {sorts: []kind{text, number}, takes: "two texts or two numbers", apply: add},
	"-": {sorts: []kind{number}, takes: "two numbers", apply: subtract},
	"*": {sorts: []kind{number}, takes: "two numbers", apply: multiply},
	"/": {sorts: []kind{number}, takes: "two numbers", result: decimal, apply: divide},
	"%": {sorts: []kind{integer}, takes: "two integers", result: integer, apply: remainder},
}

func comparison(takes string, holds func(x, y any) bool, sorts ...kind) operator {
	return operator{sorts: sorts, takes: takes, result: boolean, apply: func(x, y any) (any, string) {
		return holds(x, y), ""
	}}
}

func textTest(holds func(s, part string) bool) operator {
	return comparison("two texts", func(x, y any) bool { return holds(x.(string), y.(string)) }, text)
}

func (b *builder) binary(n *ast.BinaryNode) operand {
	left, right := b.build(n.Left), b.build(n.Right)
	both := left.kind | right.kind
	switch n.Operator {
	case "&&", "and", "||", "or":
		b.demand(n, operand{kind: both}, boolean, "%s takes two booleans", n.Operator)
		return shortCircuit(left, right, n.Operator == "||" || n.Operator == "or")
	case "??":
		return b.fail(n, "?? is not available: write default(value, other)")
	}
	op, known := operators[n.Operator]
	if !known {
		return b.fail(n, "%s is not available in templates", n.Operator)
	}
	for _, sort := range op.sorts {
		if !both.is(sort) {
			continue
		}
		result := op.result
		if result == 0 {
			result = arithmetic(left.kind, right.kind)
		}
		return apply(b.at(n), result, op.apply, left, right)
	}
	return b.fail(n, "%s takes %s", n.Operator, op.takes)
}

// arithmetic returns the kind of what +, - and * make of two kinds: two integers stay integers, one float makes a
// float.
func arithmetic(x, y kind) kind {
	switch {
	case (x | y).is(text):
		return text
	case (x | y).is(integer):
		return integer
	case x == decimal || y == decimal:
		return decimal
	}
	return number
}

func (b *builder) unary(n *ast.UnaryNode) operand {
	o := b.build(n.Node)
	switch n.Operator {
	case "!", "not":
		b.demand(n, o, boolean, "%s takes a boolean", n.Operator)
		return apply(b.at(n), boolean, func(x, _ any) (any, string) { return !x.(bool), "" }, o, constant(null, nil))
	case "+", "-":
		b.demand(n, o, number, "%s takes a number here", n.Operator)
		change := add
		if n.Operator == "-" {
			change = subtract
		}
		return apply(b.at(n), o.kind, change, constant(integer, int64(0)), o)
	}
	return b.fail(n, "%s is not available in templates", n.Operator)
}

// apply evaluates both sides, then the operation on them.
func apply(column int, result kind, op operation, left, right operand) operand {
	return operand{result, func(r *rendering) (any, *Error) {
		x, err := left.run(r)
		if err != nil {
			return nil, err
		}
		y, err := right.run(r)
		if err != nil {
			return nil, err
		}
		if err := r.pass(column, lengthOf(x)+lengthOf(y)); err != nil {
			return nil, err
		}
		value, problem := op(x, y)
		if problem != "" {
			return nil, &Error{Column: column, Message: problem}
		}
		return value, nil
	}}
}

// lengthOf returns how many bytes a text has, and 0 for any other value.
func lengthOf(value any) int {
	s, _ := value.(string)
	return len(s)
}

// shortCircuit is "or" when decisive is true, "and" when it is false: the right side is not evaluated if the left one
// is decisive.
func shortCircuit(left, right operand, decisive bool) operand {
	return operand{boolean, func(r *rendering) (any, *Error) {
		x, err := left.run(r)
		if err != nil || x.(bool) == decisive {
			return x, err
		}
		return right.run(r)
	}}
}

func equal(x, y any) bool {
	if f, g, ok := floats(x, y); ok {
		return f == g
	}
	return x == y
}

func order(x, y any) int {
	if s, ok := x.(string); ok {
		return strings.Compare(s, y.(string))
	}
	if f, g, ok := floats(x, y); ok {
		return cmp.Compare(f, g)
	}
	return cmp.Compare(x.(int64), y.(int64))
}

func add(x, y any) (any, string) {
	if s, ok := x.(string); ok {
		t := y.(string)
		if len(s)+len(t) > MaxText {
			return nil, tooLong
		}
		return s + t, ""
	}
	return calculate(x, y, func(i, j int64) int64 { return i + j }, func(f, g float64) float64 { return f + g })
}

func subtract(x, y any) (any, string) {
	return calculate(x, y, func(i, j int64) int64 { return i - j }, func(f, g float64) float64 { return f - g })
}

func multiply(x, y any) (any, string) {
	return calculate(x, y, func(i, j int64) int64 { return i * j }, func(f, g float64) float64 { return f * g })
}

func divide(x, y any) (any, string) {
	return finite(toFloat(x) / toFloat(y))
}

func remainder(x, y any) (any, string) {
	if y.(int64) == 0 {
		return nil, "division by zero"
	}
	return x.(int64) % y.(int64), ""
}

// calculate does two integers as integers, anything else as floats. The language wraps around when integers overflow;
// here it is an error, for a time that went wrong must not end up in a token.
func calculate(x, y any, integers func(i, j int64) int64, floating func(f, g float64) float64) (any, string) {
	result := floating(toFloat(x), toFloat(y))
	if _, _, ok := floats(x, y); ok {
		return finite(result)
	}
	if math.Abs(result) >= 1<<63 { // may refuse what is less than 1,024 below the limit, never lets pass what is above
		return nil, "the integer is too large"
	}
	return integers(x.(int64), y.(int64)), ""
}

func finite(f float64) (any, string) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, "division by zero, or a number that is too large"
	}
	return f, ""
}

// floats returns two numbers as floats when one of them is one.
func floats(x, y any) (f, g float64, ok bool) {
	_, xok := x.(float64)
	_, yok := y.(float64)
	if !xok && !yok {
		return 0, 0, false
	}
	return toFloat(x), toFloat(y), true
}

func toFloat(x any) float64 {
	if i, ok := x.(int64); ok {
		return float64(i)
	}
	return x.(float64)
}
