package template

import (
	"fmt"
	"strings"
	"testing"

	exprlang "github.com/expr-lang/expr"
	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/expr"
)

// An accepted expression has the value that expr's own virtual machine computes. Expressions that fail here but have a
// value there (overflow, division by zero) are not compared.
func TestMeansTheSameAsInTheLanguage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := generate(t, rapid.SampledFrom([]expr.Kind{expr.Text, expr.Integer, expr.Decimal, expr.Boolean}).Draw(t, "kind"), 4)
		compiled, err := compile("{{ " + source + " }}")
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		parts, err := compiled.Render(values())
		if err != nil {
			return
		}
		want, err := exprlang.Eval(source, nil)
		if err != nil {
			t.Fatalf("%s: the language gives no value: %v", source, err)
		}
		if i, ok := want.(int); ok {
			want = int64(i)
		}
		if got := Join(parts); got != format(want) {
			t.Fatalf("%s\n got %q\nwant %q", source, got, format(want))
		}
	})
}

// generate returns an expression of this kind.
func generate(t *rapid.T, k expr.Kind, depth int) string {
	draw := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "choice") }
	sub := func(k expr.Kind) string { return generate(t, k, depth-1) }
	operation := func(operands expr.Kind, operators ...string) string {
		// Operands are not always in parentheses, so that precedence is compared, too. Comparisons must not form a chain.
		left, right := "("+sub(operands)+")", "("+sub(operands)+")"
		if operands.Is(expr.Integer|expr.Decimal) && rapid.Bool().Draw(t, "bare") {
			left = sub(operands)
		}
		return left + " " + draw(operators...) + " " + right
	}
	if depth == 0 {
		switch k {
		case expr.Text:
			return draw("''", "'a'", "'ab'", "\"b\"", "`é`")
		case expr.Integer:
			return draw("0", "1", "-2", "7", "1000")
		case expr.Decimal:
			return draw("0.5", "-1.25", "3.0", "1e3")
		default:
			return draw("true", "false")
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "conditional") == 0 {
		return "(" + sub(expr.Boolean) + " ? " + sub(k) + " : " + sub(k) + ")"
	}
	switch k {
	case expr.Text:
		return operation(expr.Text, "+")
	case expr.Integer:
		return operation(expr.Integer, "+", "-", "*", "%")
	case expr.Decimal:
		if rapid.Bool().Draw(t, "mixed") {
			return "(" + sub(expr.Integer) + ") " + draw("+", "-", "*", "/") + " (" + sub(expr.Decimal) + ")"
		}
		return operation(expr.Decimal, "+", "-", "*", "/")
	}
	switch draw("logic", "not", "text", "number", "mixed") {
	case "logic":
		return operation(expr.Boolean, "&&", "and", "||", "or", "==", "!=")
	case "not":
		return draw("!", "not ") + "(" + sub(expr.Boolean) + ")"
	case "text":
		return operation(expr.Text, "==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith", "not contains")
	case "mixed":
		return "(" + sub(expr.Integer) + ") " + draw("==", "!=", "<", "<=", ">", ">=") + " (" + sub(expr.Decimal) + ")"
	}
	return operation(expr.Integer, "==", "!=", "<", "<=", ">", ">=")
}

// Everything in the language beyond the decisions is refused, whether or not it could do harm.
func TestRefusedOfTheLanguage(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"1..1000000000", ".. is not available"},
		{"json_encode(1..9)", ".. is not available"},
		{"1 in [1]", "in is not available"},
		{"'a' not in ['a']", "in is not available"},
		{"'a' matches '(a*)*b'", "matches is not available"},
		{"2 ** 999999999", "** is not available"},
		{"2 ^ 3", "^ is not available"},
		{"user.email ?? 'x'", "write default"},
		{"1 < 2 < 3", "comparisons in a chain"},
		{"true ?: false", "?: are not available"},
		{"if true { 1 } else { 2 }", "write condition ? one : other"},
		{"let x = 1; x", "not available"},
		{"1; 2", "not available"},
		{"user?.email", "not available"},
		{"user.email[0:1]", "not available"},
		{"'abc'[0]", "only user has fields"},
		{"[1][0]", "only user has fields"},
		{"{'a': 1}.a", "only user has fields"},
		{"user.email.Len()", "values have no methods"},
		{"get_secret('a').String()", "values have no methods"},
		{"map([1], # * 2)", `unknown function "map"`},
		{"reduce(['a'], #acc + #)", `unknown function "reduce"`},
		{"sortBy([1], #)", `unknown function "sortBy"`},
		{"#", "syntax error"},
		{"b'abc'", "not available"},
		{"json_encode({(user.id): 1})", "must be literal texts"},
		{"[1] == [1]", "== takes"},
		{"{} + {}", "+ takes"},
		{"nil == nil", "== takes"},
		{"-'a'", "- takes a number"},
		{"!1", "! takes a boolean"},
		{"not 'a'", "not takes a boolean"},
		{"1 && true", "&& takes two booleans"},
		{"1.5 % 1", "% takes two integers"},
		{"'a' - 'b'", "- takes two numbers"},
		{"1 contains 1", "contains takes two texts"},
	} {
		t.Run(c.source, func(t *testing.T) {
			if _, err := compile("{{ " + c.source + " }}"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestArithmeticThatHasNoResult(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"1 % 0", "column 6: division by zero"},
		{"1 / 0", "division by zero"},
		{"0 / 0", "division by zero"},
		{"1e308 * 10", "too large"},
		{"9223372036854775807 + 1", "column 24: the integer is too large"},
		{"-9223372036854775807 - 2000", "too large"},
		{"now() * 9000000000000000000", "too large"},
		{"(true ? 1 : 2.5) / 0", "division by zero"},
	} {
		t.Run(c.source, func(t *testing.T) { wantError(t, fmt.Sprintf("{{ %s }}", c.source), values(), c.want) })
	}
	wantText(t, "{{ (false ? 1 : 2.5) + 1 }} {{ -(true ? 1 : 2.5) }}", "3.5 -1")
}
