package expr

import (
	"fmt"
	"strings"
	"testing"
)

// Kinds that are not known are no mistake in bodies, and one in templates. A part with an error fits everywhere.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind, allowed Kind
		is, may       bool
	}{
		{Text, Text, true, true},
		{Text, Integer, false, false},
		{Integer, Scalar, true, true},
		{Text | Integer, Text, false, true},
		{Any, Boolean, false, true},
		{Null, Scalar, false, false},
		{0, Text, true, true},
	} {
		if is, may := c.kind.Is(c.allowed), c.kind.May(c.allowed); is != c.is || may != c.may {
			t.Errorf("%b is %b: %t; may be: %t", c.kind, c.allowed, is, may)
		}
	}

	both := new(lookups).language()
	for source, want := range map[string]struct{ inTemplates, inBodies Kind }{
		"1": {Integer, Integer}, "1.5": {Decimal, Decimal}, "'a'": {Text, Text}, "true": {Boolean, Boolean}, "nil": {Null, Null}, "[1]": {ListKind, ListKind},
		"{a: 1}": {ObjectKind, ObjectKind}, "1 + 2": {Integer, Integer}, "1 + 2.5": {Decimal, Decimal}, "2.5 - 1": {Decimal, Decimal}, "'a' + 'b'": {Text, Text},
		"4 / 2": {Decimal, Decimal}, "-1": {Integer, Integer}, "1 == 2": {Boolean, Boolean}, "true && false": {Boolean, Boolean},
		"true ? 1 : 2": {Integer, Integer}, "true ? 1 : 'a'": {Integer | Text, Any}, "true ? nil : 'a'": {Null | Text, Null | Text}, "true ? 'a' : nil": {Null | Text, Null | Text},
		"(true ? 1 : 2.5) + 1": {numeric, Any}, "default(user.id, 1)": {Text | Integer, Any}, "now()": {Integer, Integer}, "user.id": {Text, Text},
		"nope": {0, 0}, "true ? nope : 1": {0, 0}, "true ? 1 : nope": {0, 0},
	} {
		for l, want := range map[*Language]Kind{ofTemplates: want.inTemplates, both: want.inBodies} {
			if e, _ := compileWhole(source, l); e.Kind != want {
				t.Errorf("%s is of kind %b in bodies %t, want %b", source, e.Kind, l.Bodies, want)
			}
		}
	}
	for source, want := range map[string]Kind{
		"body": Any, "body.a": Any, "body + 1": Any, "body ?? 1": Any, "1 ?? nil": Integer | Null, "let x = 1; x": Integer, "map([1], #)": ListKind,
		"count([1], true)": Integer, "any([1], true)": Boolean, "sum([1])": Any, "2 ** 3": Decimal, "body?.a": Any, "[1][0:1]": Any, "body matches 'a'": Boolean,
	} {
		if e := mustCompile(t, source, both); e.Kind != want {
			t.Errorf("%s is of kind %b, want %b", source, e.Kind, want)
		}
	}
}

// nil may be compared with all kinds, and be an operand whose value is computed.
func TestOperandsOfNoKind(t *testing.T) {
	for _, source := range []string{"nil == nil", "1 == nil", "nil != [1]", "nil < 1", "nil + 1", "nil contains 'a'", "nil in [1]", "'a' in nil", "nil in {a: 1}", "(true ? 'a' : 1) + 'b'"} {
		mustCompile(t, source, new(lookups).language())
	}
}

// For these sources the parser returns trees with shared nodes, which take 2^n steps to walk. They are refused, because
// the author of a connector must not be able to stop the host. threats.md 2 is the same for modules.
func TestExponentialTrees(t *testing.T) {
	const n = 60
	for name, source := range map[string]string{
		"?:":                   strings.Repeat("(", n) + "true" + strings.Repeat("?:true)", n),
		"comparisons in chain": strings.Repeat("(1<", n) + "1" + strings.Repeat("<1)", n),
	} {
		for _, l := range []*Language{ofTemplates, new(lookups).language()} {
			if _, problems := compileWhole(source, l); len(problems) == 0 || !strings.Contains(problems[0].Message, "not available") {
				t.Errorf("%s: got %v", name, problems)
			}
		}
	}
}

// An expression knows the column of its first token, and of what is evaluated last. Columns are those of the whole source.
func TestColumnsOfExpressions(t *testing.T) {
	for source, want := range map[string]string{
		"1":                "1 1",
		"  1 + 2":          "3 5",
		"(1 + 2) * 3":      "1 9",
		"user.email":       "1 1",
		" upper('a') ":     "2 2",
		"'a' | upper()":    "1 7",
		"body.a.b":         "1 1",
		"body?.a.b":        "1 1",
		"  body.a ? 1 : 2": "3 3",
		"'ä' + body":       "1 5",
		" not true":        "2 2",
	} {
		e := mustCompile(t, source, new(lookups).language())
		if got := fmt.Sprint(e.Start, " ", e.Column); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}

	pieces, problem := Cut("ä{{ 1 + 'ü' }}{{ nope }}", 100)
	if problem != nil {
		t.Fatal(problem)
	}
	var found []string
	for _, p := range pieces[1:] {
		_, problems := ofTemplates.Compile(p, nil)
		for _, p := range problems {
			found = append(found, p.Error())
		}
	}
	if got, want := strings.Join(found, ", "), "column 7: + takes two texts or two numbers, column 18: unknown name nope"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every mistake of an expression is reported, at its place.
func TestManyProblems(t *testing.T) {
	for source, want := range map[string]string{"a = 1": "column 3: syntax error near \"=\"", "[2 : 3]": "column 4: syntax error near \":\""} {
		if _, problems := compileWhole(source, ofTemplates); len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("%s: %v, want %s", source, problems, want)
		}
	}
}
