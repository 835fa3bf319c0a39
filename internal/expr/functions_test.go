package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

func TestNoRandomBytes(t *testing.T) {
	failing := &lookups{noUUID: true}
	r := NewRun(failing, templateLimits)
	_, err := r.Evaluate(mustCompile(t, "'a' + uuid()", ofTemplates))
	if !errors.Is(err, errNoUUID) || err.Error() != "column 7: uuid(): no random bytes" {
		t.Errorf("uuid without random bytes: %v", err)
	}
}

// Names of secrets and variables are literals of a certain form. specification.md "names are literal"
func TestLiteralNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "0-A.b_": true, "9": true, strings.Repeat("a", 128): true,
		"": false, ".a": false, "-a": false, "_a": false, "a/b": false, " a": false, "a ": false, "a\n": false, "é": false, "..": false, strings.Repeat("a", 129): false,
	} {
		if ValidName(name) != valid {
			t.Errorf("a secret may be named %q: %t", name, !valid)
		}
		_, problems := compileWhole("get_secret(`"+name+"`)", ofTemplates)
		if (len(problems) == 0) != valid {
			t.Errorf("get_secret of %q: %v", name, problems)
		}
	}
}

func TestFunctionNames(t *testing.T) {
	inTemplates := []string{"base64_decode", "base64_encode", "default", "discover", "get_key", "get_secret", "get_variable", "identity", "json_encode", "json_get", "now", "uuid"}
	inBodies := []string{
		"abs", "all", "any", "base64_decode", "base64_encode", "ceil", "count", "default", "filter", "find", "first", "floor", "from_json", "get_variable",
		"int", "join", "json_encode", "json_get", "last", "len", "lower", "map", "max", "min", "none", "now", "one", "replace", "round", "sortBy", "split",
		"string", "sum", "trim", "upper", "url_encode", "uuid",
	}
	if got := ofTemplates.FunctionNames(); !slices.Equal(got, inTemplates) {
		t.Errorf("templates have %v", got)
	}
	if got := new(lookups).language().FunctionNames(); !slices.Equal(got, inBodies) {
		t.Errorf("bodies have %v", got)
	}
}

// Nothing else is callable, whether or not expr has a function of that name.
func TestUnknownFunctions(t *testing.T) {
	for _, source := range []string{
		"env('HOME')", "readFile('/etc/passwd')", "get('x')", "toJSON(1)", "fromJSON('1')", "date('2024-01-01')", "timezone('UTC')", "duration('1s')",
		"print('x')", "repeat('x', 9)", "type(1)", "now2()", "Now()", "$env()", "$member(1)", "keys({})", "reduce([1], # + #acc)", "groupBy([1], #)",
		"flatten([[1]])", "concat([1], [2])", "uniq([1])", "float('1')",
	} {
		name, _, _ := strings.Cut(source, "(")
		rows := table{{source, "column 1: unknown function " + problem.Quote(name) + ": there are others"}}
		rows.refused(t, ofTemplates)
		rows.refused(t, new(lookups).language())
	}
	// :: calls the functions of expr, even if there is one of that name here.
	for _, name := range []string{"upper", "now", "len"} {
		rows := table{{"::" + name + "('x')", "column 3: unknown function " + problem.Quote(name)}}
		rows.refused(t, ofTemplates)
		rows.refused(t, new(lookups).language())
	}
	for name, f := range functions {
		if !f.templates {
			table{{name + "('x')", "column 1: unknown function " + problem.Quote(name)}}.refused(t, ofTemplates)
		}
	}
}

func TestRoundsOfTemplates(t *testing.T) {
	for name := range rounds {
		table{{name + "([1], true)", "column 1: unknown function " + problem.Quote(name) + ": there are others"}}.refused(t, ofTemplates)
	}
}

// A round takes a step, and another for each sixteen nodes of its expression.
func TestStepsOfARound(t *testing.T) {
	steps := func(source string) int {
		r, _, err := evaluate(t.Context(), t, 0, source, "[1,2,3,4,5,6,7,8,9,10]")
		if err != nil {
			t.Fatalf("%s: err = %v", source, err)
		}
		return r.steps
	}
	least := steps("count(body, true)")
	for nodes, want := range map[int]int{15: 0, 16: 1, 31: 1, 32: 2} {
		if got := steps("count(body, " + strings.Repeat("!", nodes-1) + "true)"); got != least+10*want {
			t.Errorf("ten rounds with %d nodes take %d steps, want %d more than %d", nodes, got, 10*want, least)
		}
	}
}

// No error quotes a value, whatever operator or function it comes from (threats.md 18).
func TestErrorsQuoteNoValue(t *testing.T) {
	const (
		canary = "kJ8canary"
		number = "7391648205"
		body   = `{"text":"` + canary + `","other":"` + canary + `!","list":["` + canary + `",` + number + `,null],"object":{"` + canary + `":"` + canary + `"},` +
			`"integer":` + number + `,"decimal":` + number + `.5,"huge":` + number + number + number + `,"yes":true,"none":null,"odd":"\u0000"}`
	)
	operands := []string{"body.text", "body.other", "body.list", "body.object", "body.integer", "body.decimal", "body.huge", "body.yes", "body.none", "body.odd"}
	var sources []string
	for _, x := range operands {
		sources = append(sources, "-"+x, "!"+x, x+" ? 1 : 2", x+"[1:]", "body.text["+x+":]", x+" matches 'a'", x+".a", x+"[9]", "let v = "+x+"; v.a.b")
		for _, y := range operands {
			for name := range operators {
				sources = append(sources, x+" "+name+" "+y)
			}
			sources = append(sources, x+"["+y+"]", x+" && "+y, "from_json("+x+" + "+y+")", "int("+x+" + "+y+")", "base64_decode("+x+" + "+y+")")
			for name := range rounds {
				sources = append(sources, name+"("+x+", "+y+")", name+"("+y+", #["+x+"])")
			}
		}
		for name, f := range functions {
			if name != "get_secret" && name != "get_variable" {
				most := min(f.maxArgs, len(arguments{}))
				sources = append(sources, name+"("+strings.TrimSuffix(strings.Repeat(x+", ", max(f.minArgs, 1)), ", ")+")", name+"("+strings.TrimSuffix(strings.Repeat(x+", ", most), ", ")+")")
			}
		}
	}
	slices.Sort(sources)
	failed := 0
	for _, source := range slices.Compact(sources) {
		w := &lookups{body: []byte(body)}
		e, problems := compileWhole(source, w.language())
		if len(problems) > 0 { // uuid takes no argument
			continue
		}
		r := NewBodyRun(t.Context(), w, bodyLimits)
		value, err := r.Evaluate(e)
		if err == nil {
			_, err = r.AppendText(nil, value)
		}
		if err == nil {
			continue
		}
		failed++
		if text := fmt.Sprintf("%v %+v", err, err.Err); strings.Contains(text, canary) || strings.Contains(text, number) {
			t.Errorf("the error of %s quotes a value: %v", source, err)
		}
	}
	if failed < 1000 {
		t.Errorf("only %d expressions failed", failed)
	}
}
