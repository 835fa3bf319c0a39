package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keywright/keywright/host"
)

func TestTemplate(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"region": "eu"} })
	secret := w.canary("s")
	for source, want := range map[string]host.Text{
		"plain": {Value: "plain", Masked: "plain"},
		"{{ get_variable('region') }}/{{ user.email }}": {Value: "eu/ann@example.com", Masked: "eu/ann@example.com"},
		"a {{ get_secret('s') }} b":                     {Value: "a " + secret + " b", Masked: "a {{ get_secret('s') }} b", Secret: true},
		"{{ now(60) }}":                                 {Value: "1700000060", Masked: "1700000060"},
	} {
		compiled, err := w.host.Template(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := compiled.Render(ann(t.Context()))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(host.Text{})); err != nil || diff != "" {
			t.Errorf("%s: err = %v\ndiff = %s", source, err, diff)
		}
	}
}

func TestInvalidTemplates(t *testing.T) {
	w := newWorld(t)
	_, err := w.host.Template("é{{ nope }} {{ user.phone }}")
	var wrong *host.TemplateError
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
		compiled, err := w.host.Template("{{ get_secret('nope') }}")
		if err != nil {
			t.Fatal(err)
		}
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
		compiled, err := w.host.Template(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := compiled.Render(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v", source, err)
		}
	}
	compiled, err := w.host.Template("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
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
		compiled, err := w.host.Template(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := compiled.RenderURL(t.Context()); err != nil || got.Value != want {
			t.Errorf("%s gives %s (%v), want %s", source, got.Value, err, want)
		}
	}
}
