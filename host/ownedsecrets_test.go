package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// as returns a request of a user of a tenant.
func as(ctx context.Context, tenantID, userID string) *http.Request {
	return get(host.WithUser(ctx, host.User{ID: userID, TenantID: tenantID}))
}

// everybody has two tenants with two users each.
var everybody = [][2]string{{"acme", "ann"}, {"acme", "bob"}, {"beta", "cy"}, {"beta", "di"}}

// ownSecrets sets a secret crm for each tenant and each user, and returns them by their names in the store.
func (w *world) ownSecrets() map[string]string {
	values := map[string]string{}
	for _, who := range everybody {
		for _, name := range []string{"tenants/" + who[0] + "/crm", "users/" + who[1] + "/crm"} {
			if values[name] == "" {
				values[name] = w.canary(name)
			}
		}
	}
	return values
}

// threats.md 118: with and without the reuse of mutations, in any order, each request has the secret of its own tenant and user.
func TestEachTenantAndUserHasItsOwnSecret(t *testing.T) {
	for _, noReuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoReuse %t", noReuse), func(t *testing.T) {
			var seen memories
			w := newWorldIn(seen.observe(), t, func(c *host.Config) { c.NoReuse = noReuse })
			values := w.ownSecrets()
			global := w.canary("crm")
			ofTenant, ofUser := w.connectAs("t", "api_key", key("{{ get_secret('crm', 'tenant') }}")), w.connectAs("u", "api_key", key("{{ get_secret('crm', 'user') }}"))
			all := w.connectAs("a", "api_key", key("{{ get_secret('crm') + get_secret('crm', 'tenant') + get_secret('crm', 'user') }}"))
			check := func() {
				t.Helper()
				for _, who := range everybody {
					tenant, user := values["tenants/"+who[0]+"/crm"], values["users/"+who[1]+"/crm"]
					for connector, want := range map[*host.Connector]string{ofTenant: tenant, ofUser: user, all: global + tenant + user} {
						if got := w.send(connector, as(t.Context(), who[0], who[1])).Header.Get("X-Key"); got != want {
							t.Errorf("connector %s of %q has the key of somebody else", connector.Config().Name, who)
						}
					}
				}
			}
			for range 3 {
				check()
			}
			values["tenants/beta/crm"] = w.canary("tenants/beta/crm") // rotates one of them
			check()
			if reused := slices.ContainsFunc(w.calls, func(a host.Attempt) bool { return a.Reused }); reused == noReuse {
				t.Errorf("were requests reused? %t", reused)
			}
			for _, memory := range seen.all {
				w.Out("the guest's memory", memory)
			}
		})
	}
}

// threats.md 118: a token that was got with a tenant's secret is that tenant's alone, even if another has the same secret.
func TestTokenOwner(t *testing.T) {
	for _, owner := range []string{"tenant", "user"} {
		t.Run(owner, func(t *testing.T) {
			w := newWorld(t)
			same := w.Secret("the secret of both")
			for _, name := range []string{"tenants/acme/crm", "tenants/beta/crm", "users/acme/crm", "users/beta/crm"} {
				w.setSecret(name, same)
			}
			w.login.Answer(tokens(3600))
			c := w.connect("oauth_client_credentials", oauth("{{ get_secret('crm', '"+owner+"') }}"))
			for range 3 {
				for i, id := range []string{"acme", "beta"} {
					if got, want := w.send(c, as(t.Context(), id, id)).Header.Get("Authorization"), fmt.Sprintf("Bearer t%d", i+1); got != want {
						t.Errorf("%s has the token %q, want %q", id, got, want)
					}
				}
			}
			if n := w.login.Count(); n != 2 {
				t.Errorf("%d token requests were sent, want one for each of two", n)
			}
		})
	}
}

// threats.md 117: an id that is no safe name fails the request, and no store is asked.
func TestUnsafeID(t *testing.T) {
	w := newWorld(t, func(c *host.Config) {
		inner := c.Secrets
		c.Secrets = secretsFunc(func(ctx context.Context, name string) (string, error) {
			if name != "crm" {
				t.Errorf("the store was asked for %q", name)
			}
			return inner.Secret(ctx, name)
		})
	})
	w.canary("crm")
	for owner, words := range map[string]string{"tenant": `secret "tenants/*/crm": the id of the tenant `, "user": `secret "users/*/crm": the id of the user `} {
		c := w.connect("api_key", key("{{ get_secret('crm', '"+owner+"') }}"))
		w.send(w.connect("api_key", key("{{ get_secret('crm') }}")), as(t.Context(), "../..", "../.."))
		for _, id := range []string{"..", "../beta", "beta/../acme", "/beta", `..\beta`, "beta.", "Beta", "BETA", "be ta", "beta\n", "beta\x00", "%62eta", "*", strings.Repeat("b", 129)} {
			failure := w.refuse(c, as(t.Context(), id, id), host.StageTemplate, "auth.config.value: "+words, "lower-case letters, digits, '_' or '-'")
			if len(id) > 3 && strings.Contains(failure.Error(), id) {
				t.Errorf("the error quotes the id: %v", failure)
			}
			if _, err := w.explain(c, as(t.Context(), id, id)); err == nil {
				t.Errorf("Explain accepts the id %q", id)
			}
		}
	}
}

// specification.md "whose secret": a request without the tenant or the user fails, and so does one without the secret; the general secret of the same name is not
// used instead. No error has the id of a tenant or a user.
func TestMissingOwnedSecrets(t *testing.T) {
	w := newWorld(t)
	w.canary("crm")
	w.canary("tenants/acme/crm")
	w.setSecret("tenants/blank/crm", " \n")
	tenant, user := w.connect("api_key", key("{{ default(get_secret('crm', 'tenant'), get_secret('crm')) }}")), w.connect("api_key", key("{{ get_secret('crm', 'user') }}"))
	for _, c := range []struct {
		name      string
		connector *host.Connector
		request   *http.Request
		want      string
	}{
		{"nobody", tenant, get(t.Context()), `secret "tenants/*/crm": the request has no tenant`},
		{"nobody", user, get(t.Context()), `secret "users/*/crm": the request has no user with an id`},
		{"a user without a tenant", tenant, as(t.Context(), "", "acme"), `the request has no tenant`},
		{"a tenant without a user", user, as(t.Context(), "acme", ""), `the request has no user with an id`},
		{"another tenant", tenant, as(t.Context(), "gamma", "u"), `secret "tenants/*/crm": the secret is not found`},
		{"a user of the tenant's name", user, as(t.Context(), "acme", "acme"), `secret "users/*/crm": the secret is not found`},
		{"a blank secret", tenant, as(t.Context(), "blank", "u"), `secret "tenants/*/crm": it is empty`},
	} {
		t.Run(c.name, func(t *testing.T) {
			failure := w.refuse(c.connector, c.request, host.StageTemplate, c.want)
			for _, id := range []string{"acme", "gamma", "blank"} {
				if strings.Contains(failure.Error(), id) {
					t.Errorf("the error has the id: %v", failure)
				}
			}
			if strings.Contains(c.want, "not found") && !errors.Is(failure, host.ErrSecretNotFound) {
				t.Errorf("%v is not ErrSecretNotFound", failure)
			}
		})
	}
}

func TestExplainSecretOwner(t *testing.T) {
	w := newWorld(t)
	w.ownSecrets()
	for _, text := range []string{"{{ get_secret('crm', 'tenant') }}", "{{ get_secret('crm', 'user') }}"} {
		c := w.connect("api_key", key(text))
		e, err := w.explain(c, as(t.Context(), "acme", "ann"))
		if err != nil || len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != text {
			t.Errorf("%s is explained as %+v, %v", text, e, err)
		}
	}
	if got := w.connect("api_key", key("{{ get_secret('crm', 'user') + get_secret('crm') + get_secret('crm', 'tenant') }}")).Secrets(); !slices.Equal(got, []string{"crm", "tenants/*/crm", "users/*/crm"}) {
		t.Errorf("the connector names %q", got)
	}
}

// A plugin asks for the secret of a tenant by the name in the configuration, and not by the tenant's.
func TestAPluginNamesNoTenant(t *testing.T) {
	name := ""
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{
		about: abi.Description{Uses: []string{contract.GroupSecret}, Fields: []abi.Field{
			{Name: "k", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkHeader}, Doc: "A secret."},
		}},
		authenticate: func(env contract.Env) (string, error) { return header("X-Key", env.SecretGet(name)), nil },
	}))
	values := w.ownSecrets()
	w.canary("crm")
	c := w.connect("custom", config{"k": "{{ get_secret('crm', 'tenant') }}"})
	for _, name = range []string{"crm", "tenants/acme/crm", "tenants/beta/crm", "users/*/crm"} {
		w.refuse(c, as(t.Context(), "acme", "ann"), host.StagePlugin, "does not name")
	}
	name = "tenants/*/crm"
	for _, id := range []string{"acme", "beta"} {
		if got := w.send(c, as(t.Context(), id, "u")).Header.Get("X-Key"); got != values["tenants/"+id+"/crm"] {
			t.Errorf("%s has the key of somebody else", id)
		}
	}
	e, err := w.explain(c, as(t.Context(), "acme", "ann"))
	if err != nil || e.Added.Headers[0].Value != "{{ get_secret('crm', 'tenant') }}" {
		t.Errorf("it is explained as %+v, %v", e, err)
	}
}

// A file of DirSecrets may have 1 MiB, with the newline at its end.
func TestTheLongestSecretInADirectory(t *testing.T) {
	for more, want := range []string{"", "has more than 1048576 bytes"} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "s"), []byte(strings.Repeat("x", 1<<20-1+more)+"\n"), 0o600))
		value, err := host.DirSecrets(dir).Secret(t.Context(), "s")
		if want == "" && (err != nil || len(value) != 1<<20-1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes too many: %d bytes, %v", more, len(value), err)
		}
	}
}

// threats.md 117: DirSecrets reads a file for each tenant and user, and EnvSecrets has no secrets of theirs.
func TestADirectoryOfTenantsAndUsers(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	t.Setenv("KEYWRIGHT_SECRET_CRM", "the environment's")
	t.Setenv("KEYWRIGHT_SECRET_TENANTS/ACME/CRM", "the environment's")
	w := newWorld(t, func(c *host.Config) { c.Secrets = host.FirstOf(host.DirSecrets(dir), host.EnvSecrets()) })
	put := func(name string) string {
		value := w.Secret(name)
		check(t, os.MkdirAll(filepath.Dir(name), 0o700))
		check(t, os.WriteFile(name, []byte(value+"\n"), 0o600))
		return value
	}
	put(filepath.Join(outside, "crm"))
	put(filepath.Join(dir, "crm"))
	check(t, os.MkdirAll(filepath.Join(dir, "tenants", "blocked", "crm"), 0o700))
	check(t, os.Symlink(outside, filepath.Join(dir, "tenants", "linked")))
	tenant, user := w.connect("api_key", key("{{ get_secret('crm', 'tenant') }}")), w.connect("api_key", key("{{ get_secret('crm', 'user') }}"))
	for _, id := range []string{"acme", "beta"} {
		ofTenant, ofUser := put(filepath.Join(dir, "tenants", id, "crm")), put(filepath.Join(dir, "users", id, "crm"))
		if got := w.send(tenant, as(t.Context(), id, "u")).Header.Get("X-Key"); got != ofTenant {
			t.Errorf("tenant %s has another key than its file", id)
		}
		if got := w.send(user, as(t.Context(), "t", id)).Header.Get("X-Key"); got != ofUser {
			t.Errorf("user %s has another key than their file", id)
		}
	}
	for id, want := range map[string]string{
		"gamma":   `there is no file "tenants/*/crm" in the secrets directory, or the environment has none of tenants and users`,
		"blocked": "it is not a regular file",
		"linked":  `secret "tenants/*/crm" cannot be read`,
	} {
		if failure := w.refuse(tenant, as(t.Context(), id, "u"), host.StageTemplate, want); strings.Contains(failure.Error(), id) {
			t.Errorf("the error has the id: %v", failure)
		}
	}
}

// A secret of all that is missing beside one of a user is named as it is.
func TestMissingSecretNextToUserSecret(t *testing.T) {
	w := newWorld(t)
	w.ownSecrets()
	connector := w.connectAs("u", "api_key", key("{{ get_secret('crm', 'user') + get_secret('absent') }}"))
	w.refuse(connector, as(t.Context(), "acme", "ann"), host.StageTemplate, `secret "absent"`)
}

func TestATenantsSecretInATemplateOfAnEmbedder(t *testing.T) {
	w := newWorld(t)
	values := w.ownSecrets()
	compiled, err := w.host.Template("k={{ get_secret('crm', 'tenant') }}")
	if err != nil || !compiled.Personal() || !slices.Equal(compiled.Secrets(), []string{"tenants/*/crm"}) {
		t.Fatalf("the template is of nobody in particular, or names %q: %v", compiled.Secrets(), err)
	}
	for _, who := range everybody {
		text, err := compiled.Render(as(t.Context(), who[0], who[1]).Context())
		if err != nil || text.Value != "k="+values["tenants/"+who[0]+"/crm"] || text.Masked != "k={{ get_secret('crm', 'tenant') }}" {
			t.Errorf("%s: text.Masked = %s, err = %v", who, text.Masked, err)
		}
	}
	for _, ctx := range []context.Context{t.Context(), as(t.Context(), "Acme", "ann").Context()} {
		testworld.WantError(t, "", testworld.ErrorOf(compiled.Render(ctx)), `secret "tenants/*/crm": the `)
	}
}

// threats.md 91, 118: each tenant has its own client certificate at the API and at the token endpoint, and its own token.
func TestATenantsClientCertificate(t *testing.T) {
	s := newSecureWorld(t)
	for _, id := range []string{"acme", "beta"} {
		s.issueTo("tenants/"+id+"/bank", id, start.Add(90*day))
	}
	c := s.secureAs("crm", &host.TLS{
		Certificate: "{{ get_secret('bank.crt', 'tenant') }}", Key: "{{ get_secret('bank.key', 'tenant') }}",
	}, s.credentials())
	for range 2 {
		for _, id := range []string{"acme", "beta"} {
			check(t, s.call(as(t.Context(), id, "u").Context(), c))
		}
	}
	if got := s.api.seen(); !slices.Equal(got, []string{"acme", "beta", "acme", "beta"}) {
		t.Errorf("the API has seen the clients %q", got)
	}
	if got := s.token.seen(); !slices.Equal(got, []string{"acme", "beta"}) {
		t.Errorf("the token endpoint has seen the clients %q", got)
	}
	if err := s.call(t.Context(), c); err == nil || !strings.Contains(err.Error(), "tls.certificate: ") || !strings.Contains(err.Error(), "the request has no tenant") {
		t.Errorf("without a tenant, the error is %v", err)
	}
}

// The error of a store that does not answer is shown without the ID, and stays one that another try may help against.
func TestStoreErrorOfTenant(t *testing.T) {
	down := errors.New("cannot read tenants/acme/crm, nor tenants/acme at all")
	w := newWorld(t, func(c *host.Config) {
		c.Secrets = secretsFunc(func(context.Context, string) (string, error) { return "", down })
	})
	failure := w.refuse(w.connect("api_key", key("{{ get_secret('crm', 'tenant') }}")), as(t.Context(), "acme", "ann"), host.StageTemplate,
		`secret "tenants/*/crm": cannot read tenants/*/crm, nor tenants/* at all`)
	if general := w.refuse(w.connect("api_key", key("{{ get_secret('crm') }}")), get(t.Context()), host.StageTemplate); failure.Retryable() != general.Retryable() || !errors.Is(failure, down) {
		t.Errorf("%v: may another try help? %t", failure, failure.Retryable())
	}
}

// A refresh token that is a secret of a tenant or a user begins a grant of that tenant or user, and is redeemed once, also if one
// user is in two tenants or another seed is one for all. threats.md 110
func TestGrantOwner(t *testing.T) {
	for owner, want := range map[string]string{"tenant": "acme beta", "user": "ann bob"} {
		t.Run(owner, func(t *testing.T) {
			c := newCluster(t, nil)
			var redeemed []string
			c.login.Answer(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				_, old, _ := strings.Cut(string(body), "refresh_token=")
				redeemed = append(redeemed, old)
				return respond(http.StatusOK, `{"refresh_token":"`+old+`-next"}`, "Content-Type", "application/json")(r)
			})
			sinks := []string{contract.SinkToken}
			w, _ := c.node(withGuest(&guest{
				about: abi.Description{
					Anonymous: true, Uses: []string{contract.GroupToken, contract.GroupState},
					Fields:  []abi.Field{{Name: "url", Kind: abi.KindURL, Required: true}, sealedField("seed", sinks...), sealedField("seed_of_all", sinks...)},
					State:   []abi.State{{Name: "refresh", Seed: "seed"}, {Name: "of_all", Seed: "seed_of_all"}},
					Answers: []abi.Answer{{Name: "next", From: "json:/refresh_token", Kind: contract.AnswerSealed, Sinks: sinks, State: "refresh"}},
				},
				authenticate: func(env contract.Env) (string, error) {
					token, _ := env.StateGet("refresh")
					env.Exchange([]byte(marshal(contract.Exchange{Method: http.MethodPost, URL: value(env, "url"), Form: []abi.Pair{{Name: "refresh_token", Value: token}}})))
					return header("X-Key", "sent"), nil
				},
			}))
			for _, id := range []string{"acme", "beta", "ann", "bob"} {
				w.setSecret("tenants/"+id+"/refresh", id)
				w.setSecret("users/"+id+"/refresh", id)
			}
			connector := w.connect("custom", config{"url": tokenURL, "seed": "{{ get_secret('refresh', '" + owner + "') }}", "seed_of_all": "{{ get_secret('s') }}"})
			for _, who := range [][2]string{{"acme", "ann"}, {"beta", "bob"}, {"acme", "bob"}, {"beta", "ann"}} {
				w.send(connector, as(t.Context(), who[0], who[1]))
			}
			slices.Sort(redeemed)
			ids := strings.Fields(want)
			if !slices.Equal(redeemed, []string{ids[0], ids[0] + "-next", ids[1], ids[1] + "-next"}) {
				t.Errorf("the tokens %q were redeemed, want each of two grants to be used twice", redeemed)
			}
		})
	}
}

// A pipe in the directory is an error, and reading it does not block (threats.md 79).
func TestSecretFromPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if value, err := host.DirSecrets(dir).Secret(t.Context(), "pipe"); err == nil || value != "" || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("the secret is %q, %v", value, err)
	}
}
