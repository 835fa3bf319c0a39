package template

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/testworld"
)

var errNoSecret = errors.New("no such secret")

// given implements Values for tests.
type given struct {
	secret   func(name string) (string, error)
	variable func(name string) (string, bool)
	user     *User
	tenantID string
	now      func() int64
	uuid     func() (string, error)
}

func (g *given) Secret(name string) (string, error)  { return g.secret(name) }
func (g *given) Variable(name string) (string, bool) { return g.variable(name) }
func (g *given) User() *User                         { return g.user }
func (g *given) Discovered(d Discovery) (string, error) {
	return "https://login.test/" + d.Member, nil
}
func (g *given) Identity(i Identity) (string, error) { return "token for " + i.Audience, nil }

func (g *given) TenantID() string      { return g.tenantID }
func (g *given) Now() int64            { return g.now() }
func (g *given) UUID() (string, error) { return g.uuid() }

// values returns the values of most tests: a user without a last name, a tenant, secrets and two variables.
func values() *given {
	secrets := map[string]string{
		"crm": "s3cr3t", "nested": "{{ get_secret('crm') }}", "empty": "", "blank": " \n\t", "long": strings.Repeat("x", maxText),
		"json": `{"type":"x","key":"-----BEGIN\nx"}`,
	}
	variables := map[string]string{"region": "eu", "nothing": ""}
	return &given{
		secret: func(name string) (string, error) {
			value, ok := secrets[name]
			if !ok {
				return "", errNoSecret
			}
			return value, nil
		},
		variable: func(name string) (string, bool) {
			value, ok := variables[name]
			return value, ok
		},
		user:     &User{Email: "ada@example.com", ID: "u1", Username: "ada", FirstName: "{{ now() }}", Token: "tok3n"},
		tenantID: "t1",
		now:      func() int64 { return 1_700_000_000 },
		uuid:     func() (string, error) { return "0190a5b2-0000-7000-8000-000000000000", nil },
	}
}

// compile compiles a template and returns all its errors as one.
func compile(source string) (*Template, error) {
	compiled, errs := Compile(source)
	return compiled, joined(errs)
}

func compileObject(v any) (*Object, error) {
	compiled, errs := CompileObject(v, "")
	return compiled, joined(errs)
}

func joined(errs []*Error) error {
	var all []error
	for _, err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func mustCompile(t testing.TB, source string) *Template {
	t.Helper()
	compiled, err := compile(source)
	if err != nil {
		t.Fatalf("Compile(%q): %v", source, err)
	}
	return compiled
}

func renderText(t testing.TB, source string, v *given) (string, error) {
	t.Helper()
	parts, err := mustCompile(t, source).Render(v)
	return Join(parts), err
}

func wantText(t *testing.T, source, want string) {
	t.Helper()
	got, err := renderText(t, source, values())
	if err != nil {
		t.Errorf("%s: err = %v", source, err)
	} else if got != want {
		t.Errorf("%s\n got %q\nwant %q", source, got, want)
	}
}

// wantError renders a template and checks that it fails with an error that contains want.
func wantError(t *testing.T, source string, v *given, want string) error {
	t.Helper()
	got, err := renderText(t, source, v)
	if err == nil {
		t.Errorf("%s: rendered %q, want an error with %q", source, got, want)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("%s\n got error %q\nwant it to have %q", source, err, want)
	}
	return err
}

func TestParts(t *testing.T) {
	secret := Part{Text: "s3cr3t", Secret: true, Source: "{{ get_secret('crm') }}"}
	for _, c := range []struct {
		name, source string
		want         []Part
	}{
		{"nothing", "", []Part{}},
		{"literal text", "abc", []Part{{Text: "abc"}}},
		{"an expression that is no secret joins the text", "a{{ tenant_id }}b{{ now() }}", []Part{{Text: "at1b1700000000"}}},
		{"a secret stands alone", "Bearer {{ get_secret('crm') }}!", []Part{{Text: "Bearer "}, secret, {Text: "!"}}},
		{"two secrets", "{{ get_secret('crm') }}{{ get_secret('crm') }}", []Part{secret, secret}},
		{"empty text between is no part", "{{ get_secret('crm') }}{{ '' }}", []Part{secret}},
		{
			"a secret at any depth", "{{ base64_encode(user.id + ':' + get_secret('crm')) }}",
			[]Part{{Text: "dTE6czNjcjN0", Secret: true, Source: "{{ base64_encode(user.id + ':' + get_secret('crm')) }}"}},
		},
		{
			"what only depends on a secret", "{{get_secret('crm') == 'x' ? 'a' : ''}}",
			[]Part{{Secret: true, Source: "{{get_secret('crm') == 'x' ? 'a' : ''}}"}},
		},
		{
			"a secret in a branch that is not taken", "{{ true ? 'a' : get_secret('none') }}",
			[]Part{{Text: "a", Secret: true, Source: "{{ true ? 'a' : get_secret('none') }}"}},
		},
		{ // threats.md 97
			"the user's token at any depth", "a{{ base64_encode(user.id + ':' + user.token) }}{{ default(user.token, '') == '' }}",
			[]Part{
				{Text: "a"},
				{Text: "dTE6dG9rM24=", Secret: true, Source: "{{ base64_encode(user.id + ':' + user.token) }}"},
				{Text: "false", Secret: true, Source: "{{ default(user.token, '') == '' }}"},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testworld.Must(mustCompile(t, c.source).Render(values()))(t)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLiteral(t *testing.T) {
	for source, want := range map[string]bool{"": true, "abc": true, "}} {": true, "{{ 'a' }}": false, "a{{ now() }}": false} {
		text, ok := mustCompile(t, source).Literal()
		if ok != want || ok && text != source {
			t.Errorf("Literal of %q: %q, %v", source, text, ok)
		}
	}
}

// Names has all names that the partition of the token cache depends on (specification.md 4.5).
func TestNames(t *testing.T) {
	source := "{{ get_secret('b') + get_secret('a') }}{{ get_secret('b') }}{{ tenant_id == 'x' ? user.id : default(user.email, get_variable('v')) }}" +
		"{{ json_encode([now(60), {'k': uuid()}]) }}{{ false && get_variable('w') == '' }}"
	want := Names{
		Secrets: []string{"a", "b"}, Variables: []string{"v", "w"}, User: []string{"email", "id"},
		Tenant: true,
	}
	compiled := mustCompile(t, source)
	if diff := cmp.Diff(want, compiled.Names()); diff != "" {
		t.Error(diff)
	}
	changed := compiled.Names()
	changed.Secrets[0] = "changed"
	if diff := cmp.Diff(want, compiled.Names()); diff != "" {
		t.Errorf("a caller changed the template's names: %s", diff)
	}

	merged := expr.Merged(Names{Secrets: []string{"a", "c"}}, want)
	if diff := cmp.Diff([]string{"a", "b", "c"}, merged.Secrets); diff != "" {
		t.Error(diff)
	}
	if got := mustCompile(t, "text").Names(); !cmp.Equal(got, Names{}) {
		t.Errorf("literal text names %+v", got)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"source", strings.Repeat("x", maxSource+1), "64 KiB"},
		{"expressions", strings.Repeat("{{1}}", expr.MaxExpressions+1), "column 1281: more than 256 expressions"},
		{"tokens", "{{ " + strings.Repeat("(", maxTokens) + "1" + strings.Repeat(")", maxTokens) + " }}", "column 1: the expression has more than 512 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testworld.WantError(t, "", testworld.ErrorOf(compile(c.source)), c.want)
		})
	}
	mustCompile(t, strings.Repeat("x", maxSource))
	mustCompile(t, strings.Repeat("{{1}}", expr.MaxExpressions))
	mustCompile(t, "{{"+strings.Repeat("(", maxTokens/2-1)+"1"+strings.Repeat(")", maxTokens/2-1)+"}}")

	long := values()
	long.tenantID = strings.Repeat("x", maxText+1)
	over := values()
	over.secret = func(string) (string, error) { return strings.Repeat("x", maxText+1), nil }
	for _, c := range []struct {
		name, source string
		values       *given
	}{
		{"a value", "{{ tenant_id }}", long},
		{"a value behind default", "{{ default(tenant_id, '') }}", long},
		{"a secret", "{{ get_secret('x') == '' }}", over},
		{"all of the text", "{{ get_secret('long') }}x", values()},
		{"a sum", "{{ get_secret('long') + 'x' == '' }}", values()},
		{"base64", "{{ base64_encode(get_secret('long')) == '' }}", values()},
		{"a document", "{{ json_encode([get_secret('long')]) == '' }}", values()},
		{"texts that grow by escaping", "{{ " + strings.Repeat("json_encode(", 60) + "'\"'" + strings.Repeat(")", 60) + " == '' }}", values()},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.source, c.values, "longer than 1 MiB") })
	}
	for source, secret := range map[string]int{
		"{{ get_secret('x') }}":                maxText,
		"{{ get_secret('x') + 'x' }}":          maxText - 1,
		"{{ base64_encode(get_secret('x')) }}": maxText / 4 * 3,
		"{{ json_encode(get_secret('x')) }}":   maxText - len(`""`),
	} {
		just := values()
		just.secret = func(string) (string, error) { return strings.Repeat("x", secret), nil }
		if got, err := renderText(t, source, just); err != nil || len(got) != maxText {
			t.Errorf("%s, a text of just the limit: %d bytes, %v", source, len(got), err)
		}
	}
}

// No error contains a value (specification.md "error texts", threats.md 18).
func TestErrorsHoldNoValue(t *testing.T) {
	const canary = "kJ8#canary\xff"
	v := values()
	v.secret = func(string) (string, error) { return canary, nil }
	v.variable = func(string) (string, bool) { return canary, true }
	for _, source := range []string{
		"{{ base64_decode(get_secret('x')) }}",
		"{{ json_encode(get_secret('x')) }}",
		"{{ json_encode({'a': get_variable('x')}) }}",
		"{{ get_secret('x') + user.last_name }}",
		"{{ get_secret('x') == '' ? 1 : 1 % 0 }}",
		"{{ get_secret('x') + base64_decode('" + strings.Repeat("eHh4", 100) + "?') }}",
	} {
		_, err := renderText(t, source, v)
		if err == nil {
			t.Errorf("%s: no error", source)
			continue
		}
		for _, form := range []string{canary, "canary", fmt.Sprintf("%x", canary), "a0o4I2NhbmFyef8"} {
			if strings.Contains(err.Error(), form) {
				t.Errorf("%s: the error holds the value: %v", source, err)
			}
		}
	}
}

// Errors do not quote string literals of a template, because these may be passwords.
func TestCompileErrorsQuoteNoLiteral(t *testing.T) {
	for _, source := range []string{
		"{{ get_secret 'hunter2' }}", "{{ get_secret('hunter2!') }}", "{{ 'hunter2 }}", "{{ get_secret(\"hunter2\" 1) }}", "{{ b'hunter2' }}",
		"{{ get_secret('a', 'hunter2') }}", "{{ ['hunter2'] }}", "{{ 'hunter2'.x }}", "{{ 'hunter2\\q' }}", "{{ json_encode({'hunter2': 1, 'hunter2': 2}) }}",
	} {
		if _, err := compile(source); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: err = %v", source, err)
		}
	}
}

func TestConcurrentRender(t *testing.T) {
	compiled := mustCompile(t, "{{ get_secret('crm') }} {{ user.last_name | default(json_encode({'a': [now(1), user.email]})) }}")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				parts, err := compiled.Render(values())
				if got := Join(parts); err != nil || got != `s3cr3t {"a":[1700000001,"ada@example.com"]}` {
					t.Errorf("got = %q, err = %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLiteralText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}'"a\\ ]*`)).Draw(t, "text")
		for strings.Contains(text, "{{") {
			text = strings.ReplaceAll(text, "{{", "{")
		}
		compiled := testworld.Must(compile(text))(t)
		parts, err := compiled.Render(nil)
		if got := Join(parts); err != nil || got != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
		if literal, ok := compiled.Literal(); !ok || literal != text || compiled.Source() != text {
			t.Fatalf("Literal of %q: %q, %v", text, literal, ok)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"", "a{{ 'b' }}c", "{{ get_secret('crm') }}", "{{ user.email | default(get_variable('x')) }}", "{{ now(-60) * 2 % 7 / 3.5 }}",
		"{{ json_encode({'a': [1, nil, {b: true}]}) }}", "{{ `}}` + \"}}\" + '}}' }}", "{{ not (1 < 2) || 'a' contains 'b' ? 1 : 2.5 }}",
		"{{ filter(1..9, # > 1) }}", "{{ let x = 1; x }}", "{{ a?.b ?? c[1:2] }}", "{{ base64_decode('YQ==') }}{{", "{{ if a { b } else { c } }}",
		"{{ 'a' not in ['a'] }}", "{{ 1 /* }} */ }}", "{{ \xff }}", "{{ '\\u{110000}' }}", "{{ -9223372036854775807 - 2 }}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		compiled, errs := Compile(source)
		if len(errs) > 0 {
			runes := len([]rune(source))
			for _, e := range errs {
				if e.Column < 0 || e.Column > runes+1 {
					t.Errorf("column %d of %d: %v", e.Column, runes, e)
				}
			}
			return
		}
		parts, err := compiled.Render(values())
		if err == nil && len(Join(parts)) > maxText {
			t.Error("over the limit")
		}
	})
}

func BenchmarkRender(b *testing.B) {
	for name, source := range map[string]string{
		"literal": "text", "secret": "{{ get_secret('crm') }}", "user": "{{ user.email }}",
		"bearer": "Bearer {{ get_secret('crm') }}", "default": "{{ user.last_name | default(user.email) }}", "exp": "{{ now(300) }}",
	} {
		b.Run(name, func(b *testing.B) {
			compiled, v := mustCompile(b, source), values()
			b.ReportAllocs()
			for b.Loop() {
				testworld.Must(compiled.Render(v))(b)
			}
		})
	}
}
