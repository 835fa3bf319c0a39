package expr

import (
	"errors"
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
	inTemplates := []string{"base64_decode", "base64_encode", "default", "discover", "get_key", "get_secret", "get_variable", "json_encode", "json_get", "now", "uuid"}
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
