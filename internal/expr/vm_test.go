package expr

import (
	"math/rand/v2"
	"testing"

	exprlang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm/runtime"
	"pgregory.net/rapid"
)

// These tests compare the language with expr's own virtual machine.

// An accepted expression has the value that expr's own virtual machine computes, in templates and in bodies. Expressions that
// fail in templates but have a value there (overflow, division by zero) are not compared.
func TestMeansTheSameAsInTheLanguage(t *testing.T) {
	bodies := new(lookups).language()
	rapid.Check(t, func(t *rapid.T) {
		source := generate(t, rapid.SampledFrom([]Kind{Text, Integer, Decimal, Boolean}).Draw(t, "kind"), 4)
		inTemplate, ok := compute(t, source, ofTemplates)
		if !ok {
			return
		}
		want, err := exprlang.Eval(source, nil)
		if err != nil {
			t.Fatalf("%s: expr has no value: %v", source, err)
		}
		switch value := want.(type) {
		case int:
			want = int64(value)
		case float64:
			want = value + 0 // there is no -0 here
		}
		if inTemplate != literal(want) {
			t.Fatalf("in templates, %s\n is %s\nnot %s", source, inTemplate, literal(want))
		}
		if inBodies, _ := compute(t, source, bodies); inBodies != literal(want) {
			t.Fatalf("in bodies, %s\n is %s\nnot %s", source, inBodies, literal(want))
		}
	})
}

// compute returns the value of an expression, and reports whether it has one.
func compute(t *rapid.T, source string, l *Language) (value string, ok bool) {
	e, problems := compileWhole(source, l)
	if len(problems) > 0 {
		t.Fatalf("%s: problems = %v", source, problems)
	}
	r := NewRun(nil, templateLimits)
	if l.Bodies {
		r = NewBodyRun(t.Context(), nil, bodyLimits)
	}
	found, err := r.Evaluate(e)
	return outcome(found, err), err == nil
}

// generate returns an expression of this kind.
func generate(t *rapid.T, k Kind, depth int) string {
	draw := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "choice") }
	sub := func(k Kind) string { return generate(t, k, depth-1) }
	operation := func(operands Kind, operators ...string) string {
		// Operands are not always in parentheses, so that precedence is compared, too. Comparisons must not form a chain.
		left, right := "("+sub(operands)+")", "("+sub(operands)+")"
		if operands.Is(Integer|Decimal) && rapid.Bool().Draw(t, "bare") {
			left = sub(operands)
		}
		return left + " " + draw(operators...) + " " + right
	}
	if depth == 0 {
		switch k {
		case Text:
			return draw("''", "'a'", "'ab'", "\"b\"", "`é`")
		case Integer:
			return draw("0", "1", "-2", "7", "1000")
		case Decimal:
			return draw("0.5", "-1.25", "3.0", "1e3")
		default:
			return draw("true", "false")
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "conditional") == 0 {
		return "(" + sub(Boolean) + " ? " + sub(k) + " : " + sub(k) + ")"
	}
	switch k {
	case Text:
		return operation(Text, "+")
	case Integer:
		return operation(Integer, "+", "-", "*", "%")
	case Decimal:
		if rapid.Bool().Draw(t, "mixed") {
			return "(" + sub(Integer) + ") " + draw("+", "-", "*", "/") + " (" + sub(Decimal) + ")"
		}
		return operation(Decimal, "+", "-", "*", "/")
	}
	switch draw("logic", "not", "text", "number", "mixed") {
	case "logic":
		return operation(Boolean, "&&", "and", "||", "or", "==", "!=")
	case "not":
		return draw("!", "not ") + "(" + sub(Boolean) + ")"
	case "text":
		return operation(Text, "==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith", "not contains")
	case "mixed":
		return "(" + sub(Integer) + ") " + draw("==", "!=", "<", "<=", ">", ">=") + " (" + sub(Decimal) + ")"
	}
	return operation(Integer, "==", "!=", "<", "<=", ">", ">=")
}

// The operators == and in have the results that they have in expr.
func TestEqual(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	// value returns a random value in the representation of this package and in that of expr.
	var value func(depth int) (ours, its any)
	value = func(depth int) (ours, its any) {
		simple := []any{nil, true, int64(1), 1.0, int64(2), "a", Number("12345678901234567890"), ""}
		n := random.IntN(len(simple) + 2*min(depth, 1))
		if n < len(simple) {
			return simple[n], simple[n]
		}
		l, list := &List{}, []any{}
		o, object := &Object{members: map[string]any{}}, map[string]any{}
		for range random.IntN(3) {
			ours, its := value(depth - 1)
			l.elements, list = append(l.elements, ours), append(list, its)
			name := string(rune('a' + random.IntN(2)))
			o.members[name], object[name] = ours, its
		}
		if n == len(simple) {
			return l, list
		}
		return o, object
	}
	r := NewBodyRun(t.Context(), nil, bodyLimits)
	for range 20_000 {
		a, x := value(3)
		b, y := value(3)
		if same := r.equal(a, b); same != runtime.Equal(x, y) {
			t.Fatalf("%#v == %#v is %v", x, y, same)
		}
		if found := in(&r, a, &List{elements: []any{b}}); found != runtime.In(x, []any{y}) {
			t.Fatalf("%#v in [%#v] is %v", x, y, found)
		}
	}
	for source, want := range map[string]any{
		"'a' in {a: nil}": true, "'b' in {a: nil}": false, "nil in {'': 1}": false, "response.body in {a: 1}": nil, "'a' in nil": false,
		"'a' in (response.body ?? 'abc')": nil, "'a' in (response.body ?? 1)": nil,
	} {
		if _, got, err := evaluate(t.Context(), t, 0, source, "1"); (err != nil) != (want == nil) || got != want {
			t.Errorf("%s is %v, %v", source, got, err)
		}
	}
}
