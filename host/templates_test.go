package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// The cases of specification.md "Templates", as requests show them.

// key returns an api_key configuration that sends a value in the header X-Key.
func key(value string) config { return config{"key": "X-Key", "value": value, "in": "header"} }

// rendered returns the value that a template renders to.
func (w *world) rendered(template string) string {
	w.t.Helper()
	return w.send(w.connect("api_key", key(template)), get(ann(context.Background()))).Header.Get("X-Key")
}

func ann(ctx context.Context) context.Context {
	return host.WithUser(ctx, host.User{
		ID: "u1", Email: "ann@example.com", Username: "ann", FirstName: "Ann", LastName: "Lee", TenantID: "acme",
	})
}

func TestDecision_Templates_syntax_functions_variables(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"region": "eu"} })
	w.setSecret("x", "s3")
	for _, c := range []struct{ name, template, want string }{
		{"text alone", "plain", "plain"},
		{"single quotes", "{{ get_secret('x') }}", "s3"},
		{"double quotes", `{{ get_secret("x") }}`, "s3"},
		{"text around", "a-{{ get_secret('x') }}-b", "a-s3-b"},
		{"two expressions", "{{ get_secret('x') }}/{{ tenant_id }}", "s3/acme"},
		{"a }} in a quoted string", "{{ default('', 'a}}b') }}", "a}}b"},
		{"a literal {{", "{{ '{{' }}x", "{{x"},
		{"a pipe", "{{ user.email | default('x') }}", "ann@example.com"},
		{"get_variable", "{{ get_variable('region') }}", "eu"},
		{"now", "{{ now() }}", "1700000000"},
		{"now and an offset", "{{ now(300) }}", "1700000300"},
		{"now less an offset", "{{ now(-60) }}", "1699999940"},
		{"default of a missing variable", "{{ default(get_variable('none'), 'd') }}", "d"},
		{"base64_encode", "{{ base64_encode('a:b') }}", "YTpi"},
		{"base64_decode", "{{ base64_decode('YTpi') }}", "a:b"},
		{"json_encode", `{{ json_encode('a"b') }}`, `"a\"b"`},
		{"json_get", `{{ json_get('{"a":{"b":"c"}}', 'a', 'b') }}`, "c"},
		{"user.email", "{{ user.email }}", "ann@example.com"},
		{"user.id", "{{ user.id }}", "u1"},
		{"user.username", "{{ user.username }}", "ann"},
		{"user.first_name", "{{ user.first_name }}", "Ann"},
		{"user.last_name", "{{ user.last_name }}", "Lee"},
		{"tenant_id", "{{ tenant_id }}", "acme"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := w.rendered(c.template); got != c.want {
				t.Errorf("%s renders to %q, want %q", c.template, got, c.want)
			}
		})
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if one, two := w.rendered("{{ uuid() }}"), w.rendered("{{ uuid() }}"); !uuid.MatchString(one) || one == two {
		t.Errorf("uuid() gives %q and %q", one, two)
	}
}

func TestDecision_Templates_type_is_string(t *testing.T) {
	w := newWorld(t)
	w.canary("k")
	c := w.connect("jwt", config{
		"private_key": "{{ get_secret('k') }}", "algorithm": "HS256",
		"claims": config{"at": "{{ now() }}", "exp": "{{ now(60) }}"},
	})
	_, claims := decodeJWT(t, w.get(c).Header.Get("Authorization"))
	if claims["at"] != "1700000000" {
		t.Errorf("a single expression gives %#v, want a string", claims["at"])
	}
}

func TestDecision_Templates_checked_when_loaded(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, template string
		column         int
		words          string
	}{
		{"syntax", "{{ get_secret('x' }}", 18, ""},
		{"not closed", "ab{{ now()", 3, ""},
		{"unknown function", "{{ env('HOME') }}", 4, `"env"`},
		{"unknown variable", "{{ user.password }}", 4, `"user.password"`},
		{"no file access", "x{{ read_file('/etc/passwd') }}", 5, "unknown function"},
		{"the language's own functions", "{{ len('x') }}", 4, "unknown function"},
		{"a name that is no literal", "{{ get_secret(user.email) }}", 15, "literal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{
				Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "api_key", Config: key(c.template)},
			})
			w.OutError("Connect", err)
			wrong, ok := err.(*host.ConfigError) //nolint:errorlint // Connect returns this very type
			if !ok || len(wrong.Problems) != 1 {
				t.Fatalf("the error is %v, want one problem", err)
			}
			p := wrong.Problems[0]
			if p.Path != "auth.config.value" || p.Column != c.column || !strings.Contains(p.Message, c.words) {
				t.Errorf("the problem is %+v, want column %d and %q", p, c.column, c.words)
			}
		})
	}
}

func TestDecision_Templates_secret_not_found(t *testing.T) {
	w := newWorld(t)
	c := w.connect("api_key", key("{{ get_secret('gone') }}"))
	err := w.refuse(c, get(t.Context()), host.StageTemplate, "gone", "auth.config.value")
	if !errorIs(err, host.ErrSecretNotFound) {
		t.Errorf("errors.Is does not find ErrSecretNotFound in %v", err)
	}
	w.refuse(w.connect("api_key", key("{{ default(get_secret('gone'), 'x') }}")), get(t.Context()), host.StageTemplate, "gone")
}

func TestDecision_Templates_user_used_no_user_given(t *testing.T) {
	w := newWorld(t)
	for _, template := range []string{"{{ user.email }}", "{{ tenant_id }}"} {
		w.refuse(w.connect("api_key", key(template)), get(t.Context()), host.StageTemplate, "value", strings.Trim(template, "{} "))
	}
	c := w.connect("api_key", key("{{ default(user.email, 'nobody') }}"))
	if got := w.get(c).Header.Get("X-Key"); got != "nobody" {
		t.Errorf("default gives %q", got)
	}
	empty := host.WithUser(t.Context(), host.User{ID: "u1"})
	if got := w.send(c, get(empty)).Header.Get("X-Key"); got != "nobody" {
		t.Errorf("default of an empty field gives %q", got)
	}
}

func TestDecision_Templates_required_field_renders_to_empty(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]config{
		"a value":             key("{{ default('', '') }}"),
		"a blank value":       key("{{ default('', ' ') }}"),
		"the key":             {"key": "{{ default('', '') }}", "value": "v", "in": "header"},
		"the key, in a query": {"key": "{{ default('', ' ') }}", "value": "v", "in": "query"},
	} {
		t.Run(name, func(*testing.T) {
			w.refuse(w.connect("api_key", c), get(t.Context()), host.StageConfig, "is empty")
		})
	}
	for _, secret := range []string{"", " ", "\n"} { // threats.md 35a
		w.setSecret("s", secret)
		w.refuse(w.connect("api_key", key("{{ get_secret('s') }}")), get(t.Context()), host.StageTemplate, "empty")
		w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageTemplate, "empty")
		w.refuse(w.connect("jwt", config{
			"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{},
		}), get(t.Context()), host.StageTemplate, "empty")
	}
	if w.login.Count() != 0 {
		t.Error("a token was requested")
	}
}

func TestDecision_Templates_CR_LF_NUL_in_header(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []string{"\r", "\n", "\x00", "\r\nX-Evil: 1"} {
		w.setSecret("s", "a"+bad+"b")
		w.refuse(w.connect("api_key", key("{{ get_secret('s') }}")), get(t.Context()), host.StageMutation, "control character")
		w.refuse(w.connect("api_key", config{"key": "{{ get_secret('s') }}", "value": "v", "in": "header"}), get(t.Context()), host.StageMutation)
	}
}

// threats.md 17.
func TestDecision_Templates_rendered_once(t *testing.T) {
	w := newWorld(t)
	w.canary("other")
	literal := "{{ get_secret('other') }}"
	w.setSecret("s", literal)
	if got := w.rendered("{{ get_secret('s') }}"); got != literal {
		t.Errorf("a secret that holds a template became %q", got)
	}
	r := get(host.WithUser(t.Context(), host.User{Email: literal}))
	if got := w.send(w.connect("api_key", key("{{ user.email }}")), r).Header.Get("X-Key"); got != literal {
		t.Errorf("a user field that holds a template became %q", got)
	}
}

func TestDecision_Templates_keys_of_objects_are_plain(t *testing.T) {
	w := newWorld(t)
	w.canary("k")
	c := w.connect("jwt", config{
		"private_key": "{{ get_secret('k') }}", "algorithm": "HS256",
		"claims": config{
			"{{ tenant_id }}": "x", "n": 7, "f": 1.5, "t": true, "nil": nil,
			"deep": config{"list": []any{"{{ tenant_id }}", config{"in": "{{ user.email }}"}, 3}},
		},
	})
	_, claims := decodeJWT(t, w.send(c, get(ann(t.Context()))).Header.Get("Authorization"))
	deep, _ := claims["deep"].(config)
	list, _ := deep["list"].([]any)
	if claims["{{ tenant_id }}"] != "x" || claims["n"] != 7.0 || claims["f"] != 1.5 || claims["t"] != true || claims["nil"] != nil {
		t.Errorf("the claims are %v", claims)
	}
	if len(list) != 3 || list[0] != "acme" || list[1].(config)["in"] != "ann@example.com" || list[2] != 3.0 {
		t.Errorf("templates at depth give %v", list)
	}
	if problems := w.problems("jwt", config{
		"private_key": "k", "claims": config{"a": []any{"x", config{"b": "{{ nope() }}"}}},
	}); !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, "auth.config.claims.a[1].b: ") }) {
		t.Errorf("the problems are %q, want one with its path", problems)
	}
}

func TestTemplate(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"region": "eu"} })
	secret := w.canary("s")
	for source, want := range map[string]host.Text{
		"plain": {Value: "plain", Masked: "plain"},
		"{{ get_variable('region') }}/{{ user.email }}": {Value: "eu/ann@example.com", Masked: "eu/ann@example.com"},
		"a {{ get_secret('s') }} b":                     {Value: "a " + secret + " b", Masked: "a {{ get_secret('s') }} b", Secret: true},
		"{{ now(60) }}":                                 {Value: "1700000060", Masked: "1700000060"},
	} {
		compiled := must(w.host.Template(source))(t)
		got, err := compiled.Render(ann(t.Context()))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(host.Text{})); err != nil || diff != "" {
			t.Errorf("%s: err = %v\ndiff = %s", source, err, diff)
		}
	}
}

func TestInvalidTemplates(t *testing.T) {
	w := newWorld(t)
	_, err := w.host.Template("é{{ nope }} {{ user.phone }}")
	var wrong *host.ConfigError
	if !errors.As(err, &wrong) || len(wrong.Problems) != 2 || wrong.Problems[0].Column != 5 || wrong.Problems[1].Column != 16 {
		t.Errorf("the error is %v", err)
	}
	if _, err := w.host.Template("{{ user.token }}"); err == nil || strings.Contains(err.Error(), "column") {
		t.Errorf("a problem of the whole text: %v", err)
	}
}

// An error names a secret that is missing once, and has the hints of all stores that have some.
func TestMissingSecretNamedOnce(t *testing.T) {
	empty := host.MapSecrets{}
	for _, test := range []struct {
		store host.Secrets
		want  string
	}{
		{empty, "the secret is not found"},
		{host.FirstOf(empty), "the secret is not found"},
		{host.FirstOf(empty, empty), "the secret is not found"},
		{host.FirstOf(empty, host.EnvSecrets()), "the secret is not found: set KEYWRIGHT_SECRET_NOPE"},
		{host.FirstOf(host.EnvSecrets(), empty, host.EnvSecrets()), "the secret is not found: set KEYWRIGHT_SECRET_NOPE, or set KEYWRIGHT_SECRET_NOPE"},
	} {
		w := newWorld(t, func(c *host.Config) { c.Secrets = test.store })
		compiled := must(w.host.Template("{{ get_secret('nope') }}"))(t)
		if _, err := compiled.Render(t.Context()); err == nil || !strings.HasSuffix(err.Error(), `secret "nope": `+test.want) {
			t.Errorf("the error is %v, want it to end in %q", err, test.want)
		}
	}
}

func TestTemplateRenderErrors(t *testing.T) {
	w := newWorld(t)
	w.setSecret("blank", " ")
	for source, want := range map[string]string{
		"{{ get_secret('none') }}":  `secret "none": the secret is not found`,
		"{{ get_secret('blank') }}": `secret "blank": it is empty`,
		"{{ user.email }}":          "user.email is missing",
	} {
		compiled := must(w.host.Template(source))(t)
		testworld.WantError(t, source, testworld.ErrorOf(compiled.Render(t.Context())), want)
	}
	compiled := must(w.host.Template("x"))(t)
	check(t, w.host.Close(t.Context()))
	if _, err := compiled.Render(t.Context()); !errors.Is(err, host.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The result of an expression stays in the segment or the parameter where the expression stands (threats.md 27).
// A template is personal if its text may differ from user to user.
func TestPersonalTemplates(t *testing.T) {
	w := newWorld(t)
	for source, want := range map[string]bool{
		"plain {{ get_secret('s') }}": false, "{{ user.email }}": true, "{{ tenant_id }}": true, "{{ tenant_id }}{{ user.id }}": true,
	} {
		compiled, err := w.host.Template(source)
		if err != nil || compiled.Personal() != want {
			t.Errorf("%s: personal is not %t: %v", source, want, err)
		}
	}
}

func TestTemplateOfAURL(t *testing.T) {
	w := newWorld(t, func(c *host.Config) {
		c.Variables = map[string]string{"v": "a/b?c&d=e f+ü#@\\", "plain": "x-1"}
	})
	for source, want := range map[string]string{
		"https://a.test/u/{{ get_variable('v') }}/x":               "https://a.test/u/a%2Fb%3Fc&d=e%20f+%C3%BC%23@%5C/x",
		"https://a.test/u?q={{ get_variable('v') }}&r=1":           "https://a.test/u?q=a%2Fb%3Fc%26d%3De%20f%2B%C3%BC%23%40%5C&r=1",
		"https://a.test/{{ true ? get_variable('plain') : '' }}/y": "https://a.test/x-1/y",
	} {
		compiled := must(w.host.Template(source))(t)
		if got, err := compiled.RenderURL(t.Context()); err != nil || got.Value != want {
			t.Errorf("%s gives %s (%v), want %s", source, got.Value, err, want)
		}
	}
}

// escapingWorld returns a world whose guest has fields with escape, and writes down what it reads of text and object.
func escapingWorld(t *testing.T, text *string, object *[]string) *world {
	t.Helper()
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		*text = value(env, "text")
		var got struct {
			List []string `json:"list"`
		}
		err := json.Unmarshal([]byte(value(env, "object")), &got)
		*object = got.List
		return header("X-Key", value(env, "key")), err
	}}
	g.about.Fields = []abi.Field{
		{Name: "text", Kind: abi.KindString, Sinks: []string{contract.SinkHeader}, Escape: `\{%`},
		{Name: "object", Kind: abi.KindObject, Sinks: []string{contract.SinkHeader}, Escape: `\{%`},
		sealedField("key", contract.SinkHeader),
	}
	return newWorld(t, withoutBuiltIns, withGuest(g))
}

// threats.md 103: in values of expressions, a backslash stands before each character that is special to the plugin. Literal
// text and secrets are as they were.
func TestEscapedExpressionValues_threats_103(t *testing.T) {
	var text string
	var object []string
	w := escapingWorld(t, &text, &object)
	w.setSecret("s", `{a}%\`)
	w.canary("k")
	connector := w.connect("custom", config{
		"text": `\{%{x}\\{{ user.username }}\`, "key": "{{ get_secret('k') }}",
		"object": config{"list": []any{"{{ user.username }}{{ user.username }}", "{{ user.username + '{' }}", "{y}", "{{ get_secret('s') }}", "{{ user.username }}:{{ get_secret('s') }}"}},
	})
	for name, want := range map[string]string{
		"ann": "ann", "é{": `é\{`, `{header:X-As}`: `\{header:X-As}`, `CORP\tom`: `CORP\\tom`, `\`: `\\`, `\{%}`: `\\\{\%}`,
	} {
		w.send(connector, get(host.WithUser(t.Context(), host.User{ID: name, Username: name})))
		if wanted := `\{%{x}\\` + want + `\`; text != wanted {
			t.Errorf("%s: the plugin read %s, want %s", name, text, wanted)
		}
		if len(object) != 5 || object[0] != want+want || object[1] != want+`\{` || object[2] != "{y}" {
			t.Fatalf("%s: the plugin read %q", name, object)
		}
		if strings.ContainsAny(object[3], `\{%`) || len(object[4]) != len(want+":"+object[3]) || !strings.HasPrefix(object[4], want+":") {
			t.Errorf("%s: sealed values are changed: %q", name, object[3:])
		}
	}
}

// threats.md 103: a backslash right before a value would undo the one that the host writes, so the configuration is refused.
func TestBackslashBeforeAValue_threats_103(t *testing.T) {
	var text string
	var object []string
	w := escapingWorld(t, &text, &object)
	w.canary("k")
	for source, wrong := range map[string]bool{
		`CORP\{{ user.username }}`: true, `\\\{{ user.username }}`: true, `{{ tenant_id }}\{{ user.username }}`: true,
		`CORP\\{{ user.username }}`: false, `{{ user.username }}\`: false, `\n{{ user.username }}`: false,
	} {
		problems := w.problems("custom", config{"key": "{{ get_secret('k') }}", "text": source, "object": config{"list": []any{source}}})
		all := strings.Join(problems, "\n")
		if !wrong && all != "" || wrong && (len(problems) != 2 || strings.Count(all, `a single \ stands right before {{: write \\`) != 2) {
			t.Errorf("%s: problems = %q", source, problems)
		}
	}
}
