package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Attacks that once worked: on the URL of a token request, and on the checks that come before any request.

// customWorld returns a world with one plugin and the secrets of misused.
func customWorld(t *testing.T, g *guest, change ...func(*host.Config)) *world {
	t.Helper()
	w := newWorld(t, append(change, withoutBuiltIns, withGuest(g))...)
	return w
}

// With a default, the plugin's author would choose where the operator's secrets go.
func TestURLFieldHasNoDefault_threats_18(t *testing.T) {
	for _, standard := range []string{"https://evil.test/steal", tokenURL, "/", " "} {
		g := &guest{}
		g.about.Fields = []abi.Field{{Name: "url", Kind: abi.KindURL, Default: standard}}
		err := loadError(t, g)
		testworld.WantError(t, standard, err, "field url: a url has no default")
	}
}

func TestUserChoosesNoHostOfATokenURL_threats_18(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) })
	for _, url := range []string{
		"{{ user.id }}", "{{ tenant_id }}", "https://{{ user.username }}.login.test/token", "https://{{ user.id }}/token",
		"https://login.test{{ user.id }}", "https://login.test{{ user.id }}/token", "https://login.test:{{ tenant_id }}/", "{{ user.id }}://login.test/",
		`https://login.test\{{ user.email }}`, "https://login.test#{{ user.last_name }}",
		"{{ 'https://login.test/' + user.id }}", "https://{{ default(user.id, 'login.test') }}/token", "{{ get_secret('s') }}{{ user.id }}",
		"{{ get_secret('s', 'tenant') }}", "https://{{ get_secret('s', 'user') }}.login.test/token",
	} {
		problems := w.problems("custom", with(misused, "url", url))
		if len(problems) != 1 || !strings.HasPrefix(problems[0], "auth.config.url: user.*, tenant_id and secrets of tenants and users may stand only behind the host") {
			t.Errorf("%s: the problems are %q, want one", url, problems)
		}
	}
	for _, url := range []string{"https://login.test/{{ user.id }}/token", "https://login.test/token?as={{ user.id }}", "https://login.test?{{ user.id }}", "HTTPS://login.test/{{ user.id }}"} {
		c := w.connectAs("crm "+url, "custom", with(misused, "url", url))
		for _, id := range []string{"ann", "evil.test/", "@evil.test/", "//evil.test", `\evil.test`, "../../evil.test", ":443@evil.test", "#@evil.test"} {
			before := w.login.Count()
			_, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: id})))
			switch {
			case err == nil && w.login.Count() != before+1:
				t.Errorf("%s of %q: the token request did not go to login.test: %s", url, id, w.api.Last().URL)
			case err != nil && w.login.Count() != before:
				t.Errorf("%s of %q: the token request was sent, and then %v", url, id, err)
			case err != nil && id == "ann":
				t.Errorf("%s of %q: %v", url, id, err)
			}
		}
	}
}

// A plugin may send a token request to a URL that config_get returned. The template is rendered once. Other url fields,
// which may not be renderable for every user, are not rendered.
func TestTokenURLFromConfigGet(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) })
	g.about.Fields = append(g.about.Fields, abi.Field{Name: "another", Kind: abi.KindURL}, abi.Field{Name: "url_too", Kind: abi.KindURL})
	w := customWorld(t, g)
	c := w.connect("custom", with(misused, "url", tokenURL+"?request={{ uuid() }}",
		"another", "https://login.test/{{ user.id }}", "url_too", "https://login.test/{{ tenant_id }}"))
	seen := map[string]bool{}
	for range 20 {
		w.get(c)
		seen[w.login.Last().URL] = true
	}
	if w.login.Count() != 20 || len(seen) != 20 {
		t.Errorf("%d exchanges at %d URLs, want 20 and 20", w.login.Count(), len(seen))
	}
}

// A plugin may also send a token request to a configured URL without asking config_get. Then every url field is
// rendered.
func TestTokenURLWithoutConfigGet(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: tokenURL})))
		return header("X-Key", value(env, "to_header")), nil
	})
	// Fields of other kinds are not rendered unless the plugin asks for them.
	if w.get(w.connect("custom", with(misused, "text", "{{ user.email }}"))); w.login.Count() != 1 {
		t.Errorf("%d exchanges", w.login.Count())
	}
}

// The list of problems has texts of plugins and configurations. Each problem is one line, whatever those texts are.
func TestConfigErrorForgesNoLines_threats_21(t *testing.T) {
	const forged = "\x1b[2J\nconnectors.other.auth: forged"
	g := misusing(nil)
	g.about.Fields = append(g.about.Fields,
		abi.Field{Name: "needed", Kind: abi.KindString, Required: true, Doc: "Something." + forged},
		abi.Field{Name: "choice", Kind: abi.KindString, Enum: []string{"a" + forged, "b"}})
	g.validate = func(contract.Env) error { return errors.New("needed: is wrong" + forged) }
	w := customWorld(t, g)
	auth := func(c config) host.Auth { return host.Auth{Type: "custom", Config: c} }
	for name, c := range map[string]host.ConnectorConfig{
		"doc":        {Auth: auth(misused)},
		"enum":       {Auth: auth(with(misused, "needed", "x", "choice", "c"))},
		"validate":   {Auth: auth(with(misused, "needed", "x"))},
		"field":      {Auth: auth(with(misused, "needed", "x", "x"+forged, "1"))},
		"member":     {Auth: auth(with(misused, "needed", "x", "claims", config{"a" + forged: "{{"}))},
		"connector":  {Name: "crm" + forged, Auth: auth(with(misused, "needed", "x"))},
		"type":       {Auth: host.Auth{Type: "custom" + forged}},
		"origin":     {Origins: []string{"https://a" + forged}, Auth: auth(with(misused, "needed", "x"))},
		"expression": {Auth: auth(with(misused, "needed", "{{ '"+forged+"' + nope"+forged+" }}"))},
	} {
		t.Run(name, func(t *testing.T) {
			if c.Name == "" {
				c.Name = "crm"
			}
			if c.Origins == nil {
				c.Origins = []string{apiOrigin}
			}
			_, err := w.host.NewConnector(t.Context(), c)
			var wrong *host.ConfigError
			if !errors.As(err, &wrong) {
				t.Fatalf("not a ConfigError: %v", err)
			}
			if text := err.Error(); strings.Count(text, "\n") != len(wrong.Problems)-1 || strings.ContainsRune(text, '\x1b') {
				t.Errorf("%d problems are %q", len(wrong.Problems), text)
			}
		})
	}
}
