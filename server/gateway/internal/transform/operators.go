package transform

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"
)

// operator is one that takes texts, or takes values apart. Those of the virtual machine would not count what they read.
type operator struct {
	takes string                               // in words, for errors
	fits  func(a, b reflect.Type) bool         // whether it may take values of these kinds
	gives func(a, b reflect.Type) reflect.Type // the kind of what it makes of them
	apply func(r *run, a, b any) (any, error)
}

// operators has them all but matches, which has its pattern besides.
var operators = map[string]operator{
	"+": {"two numbers or two texts", eitherOf(isNumeric, isText), sumOf, func(r *run, a, b any) (any, error) { return r.arithmetic("+", a, b) }},
	"-": {"two numbers", eitherOf(isNumeric), sumOf, func(r *run, a, b any) (any, error) { return r.arithmetic("-", a, b) }},
	"*": {"two numbers", eitherOf(isNumeric), sumOf, func(r *run, a, b any) (any, error) { return r.arithmetic("*", a, b) }},

	"==": {"two values of one kind", alike, boolean, func(r *run, a, b any) (any, error) { return r.equal(a, b) }},
	"!=": {"two values of one kind", alike, boolean, func(r *run, a, b any) (any, error) {
		same, err := r.equal(a, b)
		return !same, err
	}},
	"<":  order("<", runtime.Less),
	"<=": order("<=", runtime.LessOrEqual),
	">":  order(">", runtime.More),
	">=": order(">=", runtime.MoreOrEqual),

	"contains":   textTest("contains", strings.Contains),
	"startsWith": textTest("startsWith", strings.HasPrefix),
	"endsWith":   textTest("endsWith", strings.HasSuffix),

	"in": {"a value, and a list or an object", inFits, boolean, in},
}

func order(name string, holds func(a, b any) bool) operator {
	return operator{"two numbers or two texts", eitherOf(isNumeric, isText), boolean, func(r *run, a, b any) (any, error) {
		s, ok1 := a.(string)
		t, ok2 := b.(string)
		_, ok3 := float(a)
		_, ok4 := float(b)
		if (!ok1 || !ok2) && (!ok3 || !ok4) {
			return nil, unfit(name, a, b)
		}
		if err := r.pass(min(len(s), len(t))); err != nil {
			return nil, err
		}
		return holds(a, b), nil
	}}
}

// textTest makes an operator that tests two texts. The result is false when one of them is null.
func textTest(name string, holds func(s, part string) bool) operator {
	return operator{"two texts", eitherOf(isText), boolean, func(r *run, a, b any) (any, error) {
		if a == nil || b == nil {
			return false, nil
		}
		s, ok1 := a.(string)
		part, ok2 := b.(string)
		if !ok1 || !ok2 {
			return nil, unfit(name, a, b)
		}
		if err := r.pass(len(s) + len(part)); err != nil {
			return nil, err
		}
		return holds(s, part), nil
	}}
}

// in reports whether a list has an element that is equal to a value, or an object a member of this name.
func in(r *run, value, of any) (any, error) {
	switch of := of.(type) {
	case nil:
		return false, nil
	case []any:
		for _, element := range of {
			if same, err := r.equal(element, value); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		name, isText := value.(string)
		if !isText && value != nil {
			return nil, fail("the members of an object are named by texts")
		}
		_, found := of[name]
		return found && isText, r.pass(len(name))
	}
	return nil, unfit("in", value, of)
}

// equal reports whether two values are the same. An integer equals the float64 of its value, but not within an object.
func (r *run) equal(a, b any) (bool, error) {
	x, ok1 := a.([]any)
	y, ok2 := b.([]any)
	if ok1 && ok2 {
		return r.equalLists(x, y, r.equal)
	}
	_, ok1 = float(a)
	if _, ok2 = float(b); ok1 && ok2 {
		return runtime.Equal(a, b), r.take(1)
	}
	return r.identical(a, b)
}

// identical reports whether two values are the same, and of the same kinds in all their parts.
func (r *run) identical(a, b any) (same bool, err error) {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok && len(x) == len(y) {
			return x == y, r.take(1 + len(x)/stepBytes)
		}
		return false, r.take(1)
	case number:
		if y, ok := b.(number); ok {
			return r.identical(string(x), string(y))
		}
		return false, r.take(1)
	case []any:
		if y, ok := b.([]any); ok {
			return r.equalLists(x, y, r.identical)
		}
		return false, r.take(1)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, r.take(1)
		}
		for name, value := range x {
			other, there := y[name]
			if err = r.pass(len(name)); err != nil || !there {
				return false, err
			}
			if same, err = r.identical(value, other); !same || err != nil {
				return false, err
			}
		}
		return true, r.take(1)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false, r.take(1)
	}
	return a == b, r.take(1)
}

func (r *run) equalLists(x, y []any, equal func(a, b any) (bool, error)) (same bool, err error) {
	if err := r.take(1); err != nil || len(x) != len(y) {
		return false, err
	}
	for i := range x {
		if same, err = equal(x[i], y[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// unfit is the error of an operator that does not take two values.
func unfit(name string, a, b any) error {
	return fail("%s does not take %s and %s", name, kindOf(a), kindOf(b))
}

func kindOf(value any) string {
	name := strings.ReplaceAll(fmt.Sprintf("%T", value), "interface {}", "any")
	if known := kindNames[name]; known != "" {
		return known
	}
	return "a value of this kind"
}

// Kinds are those of values that are known when an expression is compiled. anyKind is one that is not known.

func isText(kind reflect.Type) bool    { return kind.Kind() == reflect.String }
func isInteger(kind reflect.Type) bool { return kind.Kind() == reflect.Int }
func isNumeric(kind reflect.Type) bool { return isInteger(kind) || kind.Kind() == reflect.Float64 }

func boolean(reflect.Type, reflect.Type) reflect.Type { return reflect.TypeFor[bool]() }

// eitherOf makes a test of two values that are both of one of the kinds.
func eitherOf(kinds ...func(reflect.Type) bool) func(a, b reflect.Type) bool {
	return func(a, b reflect.Type) bool {
		for _, is := range kinds {
			if (a == anyKind || is(a)) && (b == anyKind || is(b)) {
				return true
			}
		}
		return false
	}
}

func alike(a, b reflect.Type) bool {
	return a == anyKind || b == anyKind || isNumeric(a) && isNumeric(b) || a.Kind() == b.Kind()
}

func inFits(a, b reflect.Type) bool {
	return b == anyKind || b.Kind() == reflect.Slice || b.Kind() == reflect.Map && (a == anyKind || isText(a))
}

// sumOf is the kind of what +, - and * make.
func sumOf(a, b reflect.Type) reflect.Type {
	switch {
	case isInteger(a) && isInteger(b), isText(a) && isText(b):
		return a
	case isNumeric(a) && isNumeric(b):
		return reflect.TypeFor[float64]()
	}
	return anyKind
}

// arithmetic is +, - and * of numbers, and + of texts. An integer that is too large is an error, and never wraps.
func (r *run) arithmetic(operator string, a, b any) (any, error) {
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return integers(operator, x, y)
		}
	}
	x, ok1 := float(a)
	y, ok2 := float(b)
	s, ok3 := a.(string)
	t, ok4 := b.(string)
	switch {
	case ok1 && ok2 && operator == "+":
		return x + y, nil
	case ok1 && ok2 && operator == "-":
		return x - y, nil
	case ok1 && ok2:
		return x * y, nil
	case ok3 && ok4 && operator == "+":
		if err := r.spend(len(s) + len(t)); err != nil {
			return nil, err
		}
		return s + t, nil
	}
	return nil, unfit(operator, a, b)
}

func float(value any) (float64, bool) {
	switch value := value.(type) {
	case int:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}

func integers(operator string, x, y int) (any, error) {
	var result int
	var exact bool
	switch operator {
	case "+":
		result = x + y
		exact = (result > x) == (y > 0)
	case "-":
		result = x - y
		exact = (result < x) == (y > 0)
	default:
		result = x * y
		exact = x == 0 || result/x == y && (x != -1 || y != -y || y == 0)
	}
	if !exact {
		return nil, fail("the integer is too large")
	}
	return result, nil
}
