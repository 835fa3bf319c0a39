package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
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

// Package template tests the syntax and the functions.
func TestDecision_Templates_syntax_functions_variables(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"region": "eu"} })
	w.setSecret("x", "s3")
	for template, want := range map[string]string{
		"plain":                                              "plain",
		"a-{{ get_secret('x') }}-b":                          "a-s3-b",
		`{{ get_secret("x") }}/{{ tenant_id }}`:              "s3/acme",
		"{{ get_variable('region') }}":                       "eu",
		"{{ now() }} {{ now(-60) }}":                         "1700000000 1699999940",
		"{{ default(get_variable('none'), 'd') }}":           "d",
		"{{ user.id }} {{ user.email }} {{ user.username }}": "u1 ann@example.com ann",
		"{{ user.first_name }} {{ user.last_name }}":         "Ann Lee",
	} {
		if got := w.rendered(template); got != want {
			t.Errorf("%s renders to %q, want %q", template, got, want)
		}
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if one, two := w.rendered("{{ uuid() }}"), w.rendered("{{ uuid() }}"); !uuid.MatchString(one) || one == two {
		t.Errorf("uuid() results in %q and %q", one, two)
	}
}

// Package template tests each mistake.
func TestDecision_Templates_checked_when_loaded(t *testing.T) {
	w := newWorld(t)
	for template, want := range map[string]string{
		"ab{{ now()":                      "column 3: there is no }}",
		"{{ env('HOME') }}":               `column 4: unknown function "env"`,
		"x{{ read_file('/etc/passwd') }}": "column 5: unknown function",
		"{{ get_secret(user.email) }}":    "column 15: the name must be a literal",
	} {
		_, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: "api_key", Config: key(template)}}})
		testworld.WantError(t, template, err, "connectors.crm.auth.config.value, "+want)
	}
}

func TestDecision_Templates_secret_not_found(t *testing.T) {
	w := newWorld(t)
	c := w.connect("api_key", key("{{ get_secret('gone') }}"))
	err := w.refuse(c, get(t.Context()), host.StageTemplate, "gone", "auth.config.value")
	if !errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("errors.Is does not find ErrSecretNotFound in %v", err)
	}
	w.refuse(w.connect("api_key", key("{{ default(get_secret('gone'), 'x') }}")), get(t.Context()), host.StageTemplate, "gone")
}

func TestDecision_Templates_required_field_renders_to_empty(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]config{
		"a value":             key("{{ default('', '') }}"),
		"a blank value":       key("{{ default('', ' ') }}"),
		"the key":             {"key": "{{ default('', '') }}", "value": "v", "in": "header"},
		"the key, in a query": {"key": "{{ default('', ' ') }}", "value": "v", "in": "query"},
	} {
		w.refuse(w.connectAs(name, "api_key", c), get(t.Context()), host.StageConfig, "is empty")
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
	if wrong, ok := errors.AsType[*host.ConfigError](err); !ok || len(wrong.Problems) != 2 || wrong.Problems[0].Column != 5 || wrong.Problems[1].Column != 16 {
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

// The result of an expression stays in the segment or the parameter where the expression stands (threats.md 27).
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
			t.Errorf("%s results in %s (%v), want %s", source, got.Value, err, want)
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
