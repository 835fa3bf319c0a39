package template

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/testworld"
)

// These tests cover specification.md "Templates". Tests of package host cover two of these decisions, a required field that
// renders to empty text and CR, LF or NUL in a header, because only the host knows where a value goes.

// Text between {{ and }} is an expression, and quotes in it may hold both. specification.md "syntax"
func TestSyntax(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"text around", "Bearer {{ get_secret('crm') }}.", "Bearer s3cr3t."},
		{"no spaces", "{{get_secret('crm')}}", "s3cr3t"},
		{"on several lines", "{{\n\tget_secret(\n\t\"crm\" ) }}", "s3cr3t"},
		{"double quotes", `{{ get_secret("crm") }}`, "s3cr3t"},
		{"backticks", "{{ get_secret(`crm`) }}", "s3cr3t"},
		{"pipe", "{{ user.last_name | default('x') }}", "x"},
		{"pipes", "{{ 'crm' | get_secret() | base64_encode() }}", "czNjcjN0"},
		{"}} in single quotes", "{{ 'a}}b' }}", "a}}b"},
		{"}} in double quotes", `{{ "a}}b" }}`, "a}}b"},
		{"}} in backticks", "{{ `a}}'b` }}", "a}}'b"},
		{"}} behind an escaped quote", `{{ 'it\'s }}' }}`, "it's }}"},
		{"}} that closes objects", "{{ json_encode({'a': {'b': 1}}) }}", `{"a":{"b":1}}`},
		{"}} directly behind an object", "{{ json_encode({'a': {}})}}}}", `{"a":{}}}}`},
		{"a literal {{", "{{ '{{' }} x }}", "{{ x }}"},
		{"stray }} and { in the text", "}} { a } }{ {", "}} { a } }{ {"},
		{"other letters", "é{{ 'ü}}' }}日本{{ tenant_id }}", "éü}}日本t1"},
		{"a comment", "{{ tenant_id /* }} */ }}", "t1"},
	} {
		t.Run(c.name, func(t *testing.T) { wantText(t, c.source, c.want) })
	}
}

// The functions have these values, and those in testdata of package expr. specification.md "functions"
func TestFunctions(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"get_secret", "{{ get_secret('crm') }}", "s3cr3t"},
		{"now with a sum", "{{ now(60 * 60) }}", "1700003600"},
		{"default of computed text", "{{ default(base64_decode(''), 5) }}", "5"},
		{"default with a default", "{{ user.last_name | default(get_variable('none') | default(tenant_id)) }}", "t1"},
		{"json_encode of text", `{{ json_encode('a"<é>\n') }}`, `"a\"<é>\n"`},
		{"json_encode keeps the order", "{{ json_encode({z: user.id, 'a b': now()}) }}", `{"z":"u1","a b":1700000000}`},
		{"json_get", "{{ json_get(get_secret('json'), 'key') }}", "-----BEGIN\nx"},
		{"json_get of members of members", `{{ '{"a":[],"b":{"a":1,"c d":"é"}}' | json_get('b', 'c d') }}`, "é"},
		{"json_encode of a choice", "{{ json_encode({'a': user.id == 'u1' ? nil : [1]}) }}", `{"a":null}`},
	} {
		t.Run(c.name, func(t *testing.T) { wantText(t, c.source, c.want) })
	}
}

func TestUUIDError(t *testing.T) {
	v := values()
	noEntropy := errors.New("no random bytes")
	v.uuid = func() (string, error) { return "", noEntropy }
	if err := wantError(t, "id {{ uuid() }}", v, "column 7: uuid(): no random bytes"); !errors.Is(err, noEntropy) {
		t.Errorf("got %v", err)
	}
}

// The variables are the user of the request and the tenant. specification.md "variables"
func TestVariables(t *testing.T) {
	v := values()
	v.user = &User{Email: "e", ID: "i", Username: "n", FirstName: "f", LastName: "l"}
	got, err := renderText(t, "{{user.email}}{{user.id}}{{user.username}}{{user.first_name}}{{user.last_name}}{{tenant_id}}{{user['email']}}", v)
	if err != nil || got != "einflt1e" {
		t.Errorf("got = %q, err = %v", got, err)
	}
	for _, source := range []string{"user.Email", "user.password", "tenant", "$env", "x", "user.email.x", "user", "env.HOME", "get_secret", "user[tenant_id]"} {
		if _, err := compile("{{ " + source + " }}"); err == nil {
			t.Errorf("%s: compiled", source)
		}
	}
}

// now is the Unix time in whole seconds, plus its argument. specification.md "value of now()"
func TestValueOfNow(t *testing.T) {
	v := values()
	v.now = func() int64 { return -5 }
	if got, err := renderText(t, "{{ now() }} {{ now(10) }}", v); err != nil || got != "-5 5" {
		t.Errorf("got = %q, err = %v", got, err)
	}
	v.now = func() int64 { return 1<<63 - 1 }
	wantError(t, "{{ now(5000) }}", v, "column 4: the integer is too large")
}

// A template renders to text, also if it is only one expression. specification.md "type is string"
func TestType(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"{{ 12 }}", "12"},
		{"{{ 0x10 }}", "16"},
		{"{{ true }}", "true"},
		{"{{ 1 > 2 }}", "false"},
		{"{{ 0.5 }}", "0.5"},
		{"{{ 0.1 + 0.2 }}", "0.30000000000000004"},
		{"{{ 3.0 }}", "3"},
		{"{{ 4 / 2 }}", "2"},
		{"{{ 2.5e6 }}", "2500000"},
		{"{{ 1e21 }}", "1e+21"},
		{"{{ -0.0 }}", "0"},
		{"{{ 9223372036854775807 }}", "9223372036854775807"},
	} {
		t.Run(c.source, func(t *testing.T) { wantText(t, c.source, c.want) })
	}
	for _, source := range []string{"{{ nil }}", "{{ true ? nil : 'x' }}", "{{ default(user.email, nil) }}", "{{ [1] }}", "{{ {'a': 1} }}"} {
		testworld.WantError(t, source, testworld.ErrorOf(compile(source)), "a text, a number or a boolean")
	}
}

// Compile reports mistakes with their column. specification.md "checked when loaded"
func TestCheckedWhen(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"empty expression", "ab{{ }}", "column 3: empty expression"},
		{"only a comment", "{{ /* x */ }}", "column 1: empty expression"},
		{"not closed", "ab{{ now()", "column 3: there is no }} that ends this {{"},
		{"closed in quotes only", "ab{{ 'x }}", "column 6: literal not terminated"},
		{"unknown function", "{{ now() }} {{ nope() }}", `column 16: unknown function "nope"`},
		{"unknown function with a predicate", "{{ filter('x', true) }}", `column 4: unknown function "filter"`},
		{"unknown variable", "ab {{  nope }}", `column 8: unknown variable "nope"`},
		{"unknown field", "{{ user.mail }}", `column 4: unknown variable "user.mail"`},
		{"bare user", "{{ user }}", "column 4: user is no value"},
		{"a function without its call", "{{ now }}", "column 4: now is a function"},
		{"columns are runes", "日本語{{ 'ü' + nope }}", `column 13: unknown variable "nope"`},
		{"columns go over lines", "a\n{{\n nope }}", `column 7: unknown variable "nope"`},
		{"syntax", "{{ 1 + }}", "column 7: syntax error near the end"},
		{"syntax in the middle", "x{{ get_secret 'a' }}", "column 16: syntax error near a text"},
		{"two values", "{{ user.email tenant_id }}", `column 15: syntax error near "tenant_id"`},
		{"character that is none", "{{ a § b }}", "column 6: unrecognized character"},
		{"integer that is too large", "{{ 9223372036854775808 }}", "syntax error near the end"},
		{"bad escape", `{{ '\q' }}`, "column 4: invalid char escape"},
		{"too few arguments", "{{ get_secret() }}", "column 4: get_secret takes a name, and perhaps 'tenant' or 'user'"},
		{"wrong type", "{{ now('60') }}", "column 8: now takes whole seconds"},
		{"wrong type, sum", "{{ 'a' + 1 }}", "column 8: + takes two texts or two numbers"},
		{"name that is no UTF-8", "{{ json_encode({`\xff`: 1}) }}", "column 17: JSON cannot hold"},
		{"long names are cut short", "{{ " + strings.Repeat("x", 99) + " }}", `unknown variable "` + strings.Repeat("x", 40) + `"…`},
		{"a name twice", "{{ json_encode({'a': 1, a: 2}) }}", "column 25: the object has this name twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compile(c.source)
			testworld.WantError(t, c.source, err, c.want)
		})
	}

	t.Run("every problem at once", func(t *testing.T) {
		_, errs := Compile("{{ a + b }} {{ }} {{ c( }} {{ now()")
		var columns []int
		for _, e := range errs {
			columns = append(columns, e.Column)
		}
		if want := []int{4, 8, 13, 24, 28}; !slices.Equal(columns, want) {
			t.Errorf("columns %v, want %v: %v", columns, want, errs)
		}
	})
}

// A secret that is not found is an error, and default does not replace it. specification.md "secret not found"
func TestSecretNotFound(t *testing.T) {
	for _, source := range []string{
		"{{ get_secret('none') }}",
		"{{ default(get_secret('none'), 'x') }}",
		"{{ get_secret('none') | default('x') }}",
		"{{ 'a' + get_secret('none') }}",
		"{{ json_encode({'a': [get_secret('none')]}) }}",
	} {
		err := wantError(t, source, values(), "get_secret('none'): no such secret")
		var e *Error
		if !errors.Is(err, errNoSecret) || !errors.As(err, &e) || e.Column == 0 {
			t.Errorf("%s: err = %#v", source, err)
		}
	}
	t.Run("threats.md 35a: empty or blank", func(t *testing.T) {
		for _, source := range []string{
			"{{ get_secret('empty') }}", "{{ get_secret('blank') }}", "{{ default(get_secret('empty'), 'x') }}", "{{ get_secret('blank') == '' }}",
		} {
			wantError(t, source, values(), "the secret is empty or blank")
		}
	})
}

// A missing user is an error with the name of the field, unless default replaces the field. specification.md "user used, no
// user given"
func TestUserUsedNoUserGiven(t *testing.T) {
	nobody := values()
	nobody.user, nobody.tenantID = nil, ""
	for _, name := range expr.UserFields {
		field := "user." + name
		wantError(t, "{{ "+field+" }}", nobody, field)
		if got, err := renderText(t, "{{ "+field+" | default('x') }}", nobody); err != nil || got != "x" {
			t.Errorf("%s: got = %q, err = %v", field, got, err)
		}
	}
	wantError(t, "{{ tenant_id }}", nobody, "tenant_id")
	wantError(t, "a {{ user.last_name }}", values(), "column 6: user.last_name is missing")
	wantError(t, "{{ get_variable('none') }}", values(), "get_variable('none')")

	for _, c := range []struct{ name, source, want string }{
		{"empty field", "{{ default(user.last_name, 'x') }}", "x"},
		{"in brackets", "{{ (user.last_name) | default('x') }}", "x"},
		{"other is not looked at when not needed", "{{ user.email | default(user.last_name) }}", "ada@example.com"},
		{"branch that is not taken", "{{ user.id == 'u1' ? 'x' : user.last_name }}", "x"},
		{"side that does not decide", "{{ true || user.last_name == '' }}", "true"},
	} {
		t.Run(c.name, func(t *testing.T) { wantText(t, c.source, c.want) })
	}
	for _, source := range []string{
		"{{ default('a' + user.last_name, 'x') }}",
		"{{ default(base64_encode(user.last_name), 'x') }}",
		"{{ default('', user.last_name) }}",
		"{{ default(default(user.last_name, user.last_name), 'x') }}",
	} {
		wantError(t, source, values(), "user.last_name is missing")
	}
}

// A secret or a field of the user that holds template text stays as it is. specification.md "rendered once", threats.md 17
func TestRenderedOnce(t *testing.T) {
	wantText(t, "{{ get_secret('nested') }}", "{{ get_secret('crm') }}")
	wantText(t, "{{ user.first_name }}!", "{{ now() }}!")
	wantText(t, "{{ '{' }}{{ '{ now() }' }}}", "{{ now() }}")
	wantText(t, "{{ base64_decode('e3sgbm93KCkgfX0=') }}", "{{ now() }}")
}

// A single backslash right before an expression would be read together with the backslash that the host writes, so a field with
// an escape refuses it. Pairs of backslashes, other text and fields without an escape are allowed.
func TestABackslashBeforeAnExpression(t *testing.T) {
	const value = "{{ user.id }}"
	for _, test := range []struct {
		source, special string
		column          int // of the error, or 0
	}{
		{`\` + value, `\{`, 2},
		{`a\\\` + value, `\{`, 5},
		{value + `\` + value, `\{`, len(value) + 2},
		{`\\` + value, `\{`, 0},
		{`a` + value, `\{`, 0},
		{value + `\`, `\{`, 0},
		{value + value, `\{`, 0},
		{`a\ b`, `\{`, 0},
		{`\` + value, ``, 0},
	} {
		_, errs := CompileEscaped(test.source, test.special)
		switch {
		case test.column == 0 && len(errs) > 0:
			t.Errorf("%s with %q is refused: %v", test.source, test.special, errs[0])
		case test.column > 0 && (len(errs) != 1 || errs[0].Column != test.column || !strings.Contains(errs[0].Message, `write \\`)):
			t.Errorf("%s with %q has the errors %v, want one in column %d", test.source, test.special, errs, test.column)
		}
	}
}

// A connector names the tenant, or secrets of an owner, if any of its templates does.
func TestMergedNamesOfTheTenantAndOfOwners(t *testing.T) {
	for _, all := range [][]Names{{{Tenant: true, Owned: true}, {}}, {{}, {Tenant: true, Owned: true}}} {
		if n := expr.Merged(all...); !n.Tenant || !n.Owned {
			t.Errorf("of %+v there is %+v", all, n)
		}
	}
	if n := expr.Merged(Names{Tenant: true}, Names{Owned: true}); !n.Tenant || !n.Owned {
		t.Errorf("of two templates there is %+v", n)
	}
	if n := expr.Merged(Names{}, Names{}); n.Tenant || n.Owned {
		t.Errorf("of nothing there is %+v", n)
	}
}

// A template with discover knows what it discovers. A mistake has its column, and names what was meant. threats.md 140
func TestDiscover(t *testing.T) {
	wantText(t, "{{ discover('https://login.test', 'token_endpoint') }}?a=b", "https://login.test/token_endpoint?a=b")
	object := testworld.Must(compileObject(map[string]any{
		"a": "{{ discover('https://login.test', 'token_endpoint') }} {{ discover('https://a.test/b', 'userinfo_endpoint') }}",
		"b": []any{"{{ discover('https://login.test', 'revocation_endpoint') }}{{ discover('https://login.test', 'token_endpoint') }}"},
	}))(t)
	want := []Discovery{
		{Issuer: "https://a.test/b", Member: "userinfo_endpoint"},
		{Issuer: "https://login.test", Member: "revocation_endpoint"},
		{Issuer: "https://login.test", Member: "token_endpoint"},
	}
	if got := object.Names().Discovered; !slices.Equal(got, want) {
		t.Errorf("the object discovers %v, want %v", got, want)
	}
	for _, endpoint := range endpoints {
		if _, err := compile("{{ discover('http://localhost:8080/a/', '" + endpoint + "') }}"); err != nil {
			t.Errorf("%s: err = %v", endpoint, err)
		}
	}

	for issuer, want := range map[string]string{
		"login.test":                             "column 13: the issuer is not an https URL such as https://login.example.com",
		"https://":                               "column 13: the issuer has no host",
		"https://me:pw@login.test":               "column 13: the issuer has user info, which would end up in logs",
		"https://login.test#a":                   "column 13: the issuer has a fragment, which is never sent: remove it",
		"https://login.test?":                    "column 13: the issuer has a query, which an issuer must not have (RFC 8414 section 2)",
		"https://login.test/a?b=c":               "column 13: the issuer has a query, which an issuer must not have (RFC 8414 section 2)",
		"https://login.test/.well-known/openid-": "column 13: the issuer is the URL of the metadata: write the value of the member issuer in it",
	} {
		testworld.WantError(t, issuer, testworld.ErrorOf(compile("{{ discover('"+issuer+"', 'token_endpoint') }}")), want)
	}
	for member, want := range map[string]string{
		"token_endpoints": `column 35: there is no such endpoint; did you mean "token_endpoint"?`,
		"Token_Endpoint":  `column 35: there is no such endpoint; did you mean "token_endpoint"?`,
		"jwks_uri":        "column 35: there is no such endpoint; there are " + strings.Join(endpoints, ", "),
		"issuer":          "column 35: there is no such endpoint; there are " + strings.Join(endpoints, ", "),
	} {
		testworld.WantError(t, member, testworld.ErrorOf(compile("{{ discover('https://login.test', '"+member+"') }}")), want)
	}
}
