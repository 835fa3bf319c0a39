package expr

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

// Functions of all places have the same values in templates and in bodies.
func TestFunctionsOfAllPlaces(t *testing.T) {
	rows := table{
		{"get_variable('region')", "'eu'"},
		{"get_variable('nothing')", "''"},
		{"::get_variable('region')", "'eu'"}, // expr has no function of that name
		{"get_variable('none')", "column 1: get_variable('none'): there is no such variable"},
		{"default(get_variable('none'), 'x')", "'x'"},
		{"default(get_variable('nothing'), 'x')", "'x'"},
		{"default(get_variable('region'), 'x')", "'eu'"},
		{"get_variable('none') | default('x')", "'x'"},
		{"default('' + get_variable('none'), 'x')", "column 14: get_variable('none')"}, // not itself the name
		{"default('', 5)", "5"},
		{"default('a', 5)", "'a'"},
		{"default(user.email, user.last_name)", "'ada@example.com'"}, // the other is not evaluated
		{"default(user.last_name, user.last_name)", "column 25: user.last_name is missing"},
		{"default(default(user.last_name, ''), 'x')", "'x'"},
		{"default(base64_encode(user.last_name), 'x')", "column 23: user.last_name is missing"},

		{"now()", "1700000000"},
		{"now(300)", "1700000300"},
		{"now(-60)", "1699999940"},
		{"1 + now(9223372036854775807)", "column 5: the integer is too large"},
		{"uuid()", "'0190a5b2-0000-7000-8000-000000000000'"},
		{"base64_encode('??>>~')", "'Pz8+Pn4='"}, // RFC 4648 section 4
		{"base64_decode('Pz8+Pn4=')", "'??>>~'"},
		{"'x' | base64_encode() | base64_decode()", "'x'"},
		{"'a' + base64_decode('Pz8-Pn4=')", "column 7: base64_decode: not base64 (RFC 4648 section 4, with padding)"},
		{"base64_decode('YQ')", "column 1: base64_decode: not base64"},
		{"json_encode('a\"é')", `'"a\"é"'`},
		{"json_encode([1, -2.5, true, nil, 'x', [], {}])", `'[1,-2.5,true,null,"x",[],{}]'`},
		{"json_encode({z: user.id, 'a b': 1, 3: {}})", `'{"z":"u1","a b":1,"3":{}}'`},
		{"json_encode(base64_decode('/w=='))", "column 1: JSON cannot hold text that is not UTF-8"},
	}
	rows.inBodies(t, "null")
	rows.inTemplates(t)

	failing := &lookups{noUUID: true}
	r := NewRun(failing, templateLimits)
	_, err := r.Evaluate(mustCompile(t, "'a' + uuid()", ofTemplates))
	if !errors.Is(err, errNoUUID) || err.Error() != "column 7: uuid(): no random bytes" {
		t.Errorf("uuid without random bytes: %v", err)
	}
}

// Secrets are available in templates only. default never replaces a secret that is missing.
func TestSecrets(t *testing.T) {
	table{
		{"get_secret('crm')", "'s3cr3t'"},
		{"'crm' | get_secret() | base64_encode()", "'czNjcjN0'"},
		{"1 == 1 && get_secret('none') == ''", "column 11: get_secret('none'): no such secret"},
		{"default(get_secret('none'), 'x')", "column 9: get_secret('none'): no such secret"},
		{"default(get_secret('empty'), 'x')", "column 9: get_secret('empty'): the secret is empty or blank"},
		{"get_secret('blank')", "column 1: get_secret('blank'): the secret is empty or blank"},
	}.inTemplates(t)

	const put = ": get_secret is not available here: a secret in request or response would reach the caller; put it into auth, headers or query"
	table{
		{"get_secret('crm')", "column 1" + put},
		{"upper(get_secret('crm'))", "column 7" + put},
		{"default(get_secret('crm'), '')", "column 9" + put},
	}.refused(t, new(lookups).language())
}

// Names of secrets and variables are literals of a certain form. specification.md "names are literal"
func TestLiteralNames(t *testing.T) {
	const form = ": the name must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit"
	table{
		{"get_secret(user.email)", "column 12: the name must be a literal text, in quotes"},
		{"get_secret('a' + 'b')", "column 16: the name must be a literal text"},
		{"get_secret(true ? 'a' : 'b')", "column 12: the name must be a literal text"},
		{"user.id | get_secret()", "column 1: the name must be a literal text"},
		{"get_secret(1)", "column 12: the name must be a literal text"},
		{"get_secret('.a')", "column 12" + form},
		{"get_secret()", "column 1: get_secret takes a name, and perhaps 'tenant' or 'user'"},
		{"get_secret('a', 'user', 'b')", "column 1: get_secret takes a name, and perhaps 'tenant' or 'user'"},
		{"get_secret('a', 'b')", "column 17: whose secret it is must be written 'tenant' or 'user'"},
		{"get_secret('a', 'Tenant')", "column 17: whose secret it is must be written 'tenant' or 'user'"},
		{"get_secret('a', '')", "column 17: whose secret it is must be written 'tenant' or 'user'"},
		{"get_secret('a', tenant_id)", "column 17: whose secret it is must be written 'tenant' or 'user'"},
		{"get_secret('a', true ? 'user' : 'tenant')", "column 17: whose secret it is must be written 'tenant' or 'user'"},
		{"get_secret('tenants/acme/a')", "column 12" + form},
		{"get_secret('../a', 'tenant')", "column 12" + form},
		{"get_variable(tenant_id)", "column 14: the name must be a literal text"},
		{"get_variable('')", "column 14" + form},
		{"get_variable()", "column 1: get_variable takes one name"},
	}.refused(t, ofTemplates)

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

func TestFunctionsOfTexts(t *testing.T) {
	table{
		{"upper('aäz')", "'AÄZ'"},
		{"lower('AÄZ')", "'aäz'"},
		{"trim('  a b ')", "'a b'"},
		{"url_encode('a b&c/ü')", "'a+b%26c%2F%C3%BC'"},
		{"split('a-b--c', '-')", "['a', 'b', '', 'c']"},
		{"split('', '-')", "['']"},
		{"split('äb', '')", "['ä', 'b']"},
		{"join(['a', 'b', 'c'], '-')", "'a-b-c'"},
		{"join(['a', 'b'])", "'ab'"},
		{"join([], '-')", "''"},
		{"join(['a'], '-')", "'a'"},
		{"replace('banana', 'an', 'AN')", "'bANANa'"},
		{"replace('abc', '', '-')", "'-a-b-c-'"},
		{"replace('abc', 'x', 'y')", "'abc'"},
		{"from_json('{\"a\": [1, 2.50]}')", "{a: [1, 2.5]}"},
		{"from_json('[1.50]')[0]", "Number 1.50"},
		{"1 + from_json('{')", "column 5: not well-formed JSON at byte 1"},
		{"string('a')", "'a'"},
		{"string(12)", "'12'"},
		{"string(1.50)", "'1.5'"},
		{"string(true)", "'true'"},
		{"string([1, 'a'])", `'[1,"a"]'`},
		{"string(body.huge)", "'12345678901234567890'"},
		{"string(body.none)", "column 1: null has no text: give string(default(value, other))"},
	}.inBodies(t, kinds)
}

func TestInt(t *testing.T) {
	const refused = "column 1: int takes a number or its text, of 64 bits at most"
	table{
		{"int(7)", "7"},
		{"int(3.9)", "3"},
		{"int(-3.9)", "-3"},
		{"int('12')", "12"},
		{"int('-12')", "-12"},
		{"int('9223372036854775807')", "9223372036854775807"},
		{"int(-9223372036854775808.0)", "-9223372036854775808"},
		{"int(9223372036854774784.0)", "9223372036854774784"}, // the largest that fits
		{"int(9223372036854775808.0)", refused},
		{"int(-9223372036854777856.0)", refused},
		{"int('9223372036854775808')", refused},
		{"int('1.5')", refused},
		{"int('12a')", refused},
		{"int('')", refused},
		{"int(1 / 0)", refused},
		{"int(-1 / 0)", refused},
		{"int(0 / 0)", refused},
		{"int(body.huge)", refused},
		{"int(body.none)", refused},
		{"int(true)", refused},
		{"int([1])", refused},
	}.inBodies(t, kinds)
}

func TestFunctionsOfLists(t *testing.T) {
	table{
		{"first(body.list)", "1"},
		{"last(body.list)", "2"},
		{"first([])", "nil"},
		{"last([])", "nil"},
		{"first([3])", "3"},
		{"last([3])", "3"},
		{"len(body.list)", "2"},
		{"len(body.object)", "1"},
		{"len({a: 1, b: 2})", "2"},
		{"len({})", "0"},
		{"len('größer')", "6"},
		{"max(1, 3, 2)", "3"},
		{"min(2, 1, 3)", "1"},
		{"max([1, [3, 2]], 2.5)", "3"},
		{"min([[4], [[0.5]]], 1)", "0.5"},
		{"max(1, 1.0)", "1"}, // the first of equal ones
		{"min(1.0, 1)", "1.0"},
		{"max([])", "nil"},
		{"min([[]], [])", "nil"},
		{"max(-1)", "-1"},
		{"max(1, 0 / 0)", "1"}, // nothing is more than what is no number
		{"min(1, 0 / 0)", "1"},
		{"max(body.list, 0)", "2"},
	}.inBodies(t, kinds)

	const wanted = "column 1: a list is wanted: where it may be missing, write ?? []"
	table{
		{"first(body.text)", wanted},
		{"last(body.none)", wanted},
		{"join(body.object)", wanted},
		{"len(body.integer)", "column 1: len takes a list, an object or a text"},
		{"len(body.none)", "column 1: len takes a list, an object or a text"},
		{"max(1, 'a')", "column 1: max takes numbers, or lists of them"},
		{"min([1, [nil]])", "column 1: min takes numbers, or lists of them"},
		{"max(body.huge, 1)", "column 1: max takes numbers, or lists of them"},
		{"join([1])", "column 1: join takes a list of texts"},
		{"join(['a', nil])", "column 1: join takes a list of texts"},
		{"join(['a'], body.none)", "column 1: a text is wanted"},
	}.inBodies(t, kinds)
}

func TestFunctionsOfNumbers(t *testing.T) {
	const misfit = "column 1: a value is missing, or of a kind that does not go here"
	table{
		{"abs(-3)", "3"},
		{"abs(3)", "3"},
		{"abs(0)", "0"},
		{"abs(-2.5)", "2.5"},
		{"abs(2.5)", "2.5"},
		{"ceil(1.2)", "2.0"},
		{"floor(1.8)", "1.0"},
		{"floor(-1.2)", "-2.0"},
		{"round(2.5)", "3.0"},
		{"round(-2.5)", "-3.0"},
		{"round(2.4)", "2.0"},
		{"round(3)", "3.0"},
		// there is no -0
		{"abs(from_json('-0.0'))", "0.0"},
		{"ceil(-0.5)", "0.0"},
		{"floor(from_json('-0.0'))", "0.0"},
		{"string(round(-0.4))", "'0'"},
		{"abs(body.text)", misfit},
		{"ceil(body.none)", misfit},
		{"floor(body.huge)", misfit},
		{"round(body.list)", misfit},
		{"now(body.decimal)", "column 1: now takes whole seconds"},
		{"now(body.none)", "column 1: now takes whole seconds"},
	}.inBodies(t, kinds)
}

// A wrong kind or number of arguments is refused before the evaluation, if it is known then.
func TestRefusedArguments(t *testing.T) {
	table{
		{"now('60')", "column 5: now takes whole seconds"},
		{"now(1.5)", "column 5: now takes whole seconds"},
		{"now(1, 2)", "column 1: now takes nothing, or seconds"},
		{"'x' | uuid()", "column 7: uuid takes nothing"},
		{"base64_encode(now())", "column 15: base64_encode takes a text"},
		{"base64_decode()", "column 1: base64_decode takes one text"},
		{"json_encode()", "column 1: json_encode takes one value"},
		{"json_encode(1, 2)", "column 1: json_encode takes one value"},
		{"default('a')", "column 1: default takes a value and what replaces it"},
		{"default('a', 'b', 'c')", "column 1: default takes a value and what replaces it"},
		{"default(get_variable(), 'a')", "column 9: get_variable takes one name"},
		{"default(get_variable('a', 'b'), 'a')", "column 9: get_variable takes one name"},
		{"default(now(), 1)", "column 9: default replaces missing and empty texts, and this is none"},
		{"default(1, 2)", "column 9: default replaces missing and empty texts, and this is none"},
	}.refused(t, ofTemplates)
	table{
		{"upper(1)", "column 7: upper takes a text"},
		{"url_encode(nil)", "column 12: url_encode takes a text"},
		{"from_json([])", "column 11: from_json takes a text"},
		{"from_json()", "column 1: from_json takes one text"},
		{"string()", "column 1: string takes one value"},
		{"int(1, 2)", "column 1: int takes a number or a text"},
		{"split('a')", "column 1: split takes a text and what separates"},
		{"split('a', 1)", "column 12: split takes two texts"},
		{"join()", "column 1: join takes a list of texts, and what to put between"},
		{"join([], '', '')", "column 1: join takes a list of texts, and what to put between"},
		{"join([], 1)", "column 10: join takes a list of texts, and a text to put between"},
		{"replace('a', 'b')", "column 1: replace takes a text, what to replace, and by what"},
		{"replace('a', 'b', 1)", "column 19: replace takes three texts"},
		{"replace('a', 'b', 'c', 'd')", "column 1: replace takes a text, what to replace, and by what"},
		{"first()", "column 1: first takes one list"},
		{"len([], [])", "column 1: len takes one list, object or text"},
		{"max()", "column 1: max takes numbers, or lists of them"},
		{"abs('a')", "column 5: abs takes a number"},
		{"abs(1, 2)", "column 1: abs takes one number"},
		{"round(true)", "column 7: round takes a number"},
	}.refused(t, new(lookups).language())
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
