package host_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/plugins"
)

// consenter returns a guest with consent. Its functions may be replaced.
func consenter() *guest {
	secret := []string{abi.SinkToken}
	return &guest{
		about: abi.Description{
			Type: "consenter", Consent: true, Uses: []string{contract.GroupToken, contract.GroupState},
			Fields: []abi.Field{
				{Name: "authorization_url", Kind: abi.KindURL, Required: true},
				{Name: "token_url", Kind: abi.KindURL, Required: true, Sinks: secret},
				{Name: "scope", Kind: abi.KindString},
				sealedField("client_secret", secret...),
			},
			Answers: []abi.Answer{{Name: "refresh_token", From: "json:/refresh_token", Kind: contract.AnswerSealed, Sinks: secret, State: "refresh_token"}},
			State:   []abi.State{{Name: "refresh_token"}},
		},
		consent: func(env contract.Env) (string, error) {
			return marshal(contract.ConsentRequest{URL: value(env, "authorization_url")}), nil
		},
		connect: func(env contract.Env) (string, error) {
			exchange(env, contract.Exchange{URL: value(env, "token_url"), Form: []abi.Pair{{Name: "code", Value: "the-code-of-alice"}}})
			return "", nil
		},
		authenticate: func(env contract.Env) (string, error) { return header("X-Key", value(env, "client_secret")), nil },
	}
}

// guestConsents adds a node with a guest and returns its world and a connector.
func guestConsents(c *cluster, g *guest) (*world, *host.Connector) {
	w := c.world(withoutBuiltIns, withGuest(g))
	w.setSecret("s", "the secret of the client")
	w.Hide("secret s", "the secret of the client")
	return w, w.connectAs("crm", "consenter", config{
		"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL, "client_secret": "{{ get_secret('s') }}", "scope": "{{ user.email }}",
	})
}

// A plugin cannot send a browser elsewhere, ask for another kind of answer, or have a browser see a secret,
// and cannot take another parameter for the code (threats.md 127, 150).
func TestAuthorizationURLRules(t *testing.T) {
	request := func(change func(contract.Env, *contract.ConsentRequest)) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) {
			r := contract.ConsentRequest{URL: value(env, "authorization_url")}
			change(env, &r)
			return marshal(r), nil
		}
	}
	parameter := func(name, value string) func(contract.Env) (string, error) {
		return request(func(_ contract.Env, r *contract.ConsentRequest) { r.Query = []abi.Pair{{Name: name, Value: value}} })
	}
	cases := map[string]func(contract.Env) (string, error){
		"another URL":  request(func(_ contract.Env, r *contract.ConsentRequest) { r.URL = "https://evil.test/authorize" }),
		"a longer URL": request(func(_ contract.Env, r *contract.ConsentRequest) { r.URL += "/../evil" }),
		"a secret of one user": request(func(env contract.Env, r *contract.ConsentRequest) {
			if value(env, "scope") != "" {
				r.Query = []abi.Pair{{Name: "a", Value: value(env, "client_secret")}}
			}
		}),
		"the code in the state": request(func(_ contract.Env, r *contract.ConsentRequest) { r.CodeParameter = "state" }),
		"the code in an error":  request(func(_ contract.Env, r *contract.ConsentRequest) { r.CodeParameter = "error_description" }),
		"a nameless parameter":  parameter("", "x"),
		"no issuer":             request(func(_ contract.Env, r *contract.ConsentRequest) { r.IssRequired = true }),
		"another output": func(contract.Env) (string, error) {
			return `{"url":"https://login.example.com/authorize","to":"evil"}`, nil
		},
		"a state of the grant": func(env contract.Env) (string, error) {
			env.StateGet("refresh_token")
			return marshal(contract.ConsentRequest{URL: value(env, "authorization_url")}), nil
		},
		"an error": func(contract.Env) (string, error) { return "", errors.New("no") },
	}
	for _, name := range slices.Concat(contract.ConsentParameters, []string{"request", "request_uri", "registration", "Request", "request\x00", " request", "request[]"}) { // threats.md 342
		cases["the parameter "+name] = parameter(name, "mine")
	}
	for name, consent := range cases {
		t.Run(name, func(t *testing.T) {
			g := consenter()
			g.consent = consent
			w, connector := guestConsents(consenting(t), g)
			target, err := connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
			w.OutError("the error of Consent", err)
			var failure *host.Error
			if !errors.As(err, &failure) {
				t.Errorf("the browser goes to %s, %v", target, err)
			}
		})
	}
}

// A secret that a browser would see is a problem of the configuration, and not of the first user who consents (threats.md 127).
func TestBrowserVisibleSecrets(t *testing.T) {
	sealed := func(env contract.Env) string { return value(env, "client_secret") }
	for name, change := range map[string]func(contract.Env, *contract.ConsentRequest){
		"a URL": func(env contract.Env, r *contract.ConsentRequest) { r.URL = sealed(env) },
		"a parameter": func(env contract.Env, r *contract.ConsentRequest) {
			r.Query = []abi.Pair{{Name: "a", Value: "x" + sealed(env)}}
		},
		"a name":           func(env contract.Env, r *contract.ConsentRequest) { r.Query = []abi.Pair{{Name: sealed(env)}} },
		"an issuer":        func(env contract.Env, r *contract.ConsentRequest) { r.Issuer = sealed(env) },
		"a code parameter": func(env contract.Env, r *contract.ConsentRequest) { r.CodeParameter = sealed(env) },
	} {
		t.Run(name, func(t *testing.T) {
			g := consenter()
			g.consent = func(env contract.Env) (string, error) {
				r := contract.ConsentRequest{URL: value(env, "authorization_url")}
				change(env, &r)
				return marshal(r), nil
			}
			w := consenting(t).world(withoutBuiltIns, withGuest(g))
			problems := w.problems("consenter", config{
				"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL, "client_secret": "{{ get_secret('s') }}",
			})
			if len(problems) != 1 || !strings.HasPrefix(problems[0], "auth.config.client_secret: a secret is in the authorization request") {
				t.Errorf("the problems are %q", problems)
			}
		})
	}
}

// The identifier of the client, which a browser sees, may be a variable, and no secret. An endpoint may be a discovered one.
func TestSecretClientID(t *testing.T) {
	w := consenting(t).world(func(h *host.Config) {
		h.BuiltIns = []host.Plugin{{Name: "authcode", Wasm: plugins.AuthCode}}
		h.Variables = map[string]string{"client": "me"}
	})
	for id, want := range map[string]string{
		"{{ get_secret('id') }}":         "auth.config.client_id: a secret is in",
		"{{ get_secret('id', 'user') }}": "auth.config.client_id: a secret is in",
		"{{ get_variable('client') }}":   "",
	} {
		got := strings.Join(w.problems("oauth_authorization_code", authCode("client_id", id, "authorization_url", "{{ discover('https://login.example.com', 'authorization_endpoint') }}")), " ")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("with %s the problems are %q", id, got)
		}
	}
}

// Whatever a plugin does when a user has come back, nothing is kept unless it succeeds and the server has issued something.
func TestConnectKeepsNothing(t *testing.T) {
	for name, connect := range map[string]func(contract.Env) (string, error){
		"nothing is asked": func(contract.Env) (string, error) { return "", nil },
		"an error afterwards": func(env contract.Env) (string, error) {
			_, _ = consenter().connect(env)
			return "", errors.New("no")
		},
		"a token request": func(env contract.Env) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "token_url")})))
			return "", nil
		},
		"the code in an error": func(env contract.Env) (string, error) { return "", errors.New(string(env.Input())) },
		"a request that is not there": func(env contract.Env) (string, error) {
			env.Body()
			return "", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := consenter()
			g.connect = connect
			w, connector := guestConsents(consenting(t, "the-code-of-alice"), g)
			w.Hide("the code", "the-code-of-alice")
			if err := finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code-of-alice")); err == nil {
				t.Error("the consent counts")
			}
			condition(t, connector, alice, host.ConditionNotConnected)
		})
	}
	w, connector := guestConsents(consenting(t, "the-code-of-alice"), consenter())
	if err := finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code-of-alice")); err != nil {
		t.Error(err)
	}
	condition(t, connector, alice, host.ConditionConnected)
}

// A description with consent says what the host needs for it.
func TestDescriptionsOfConsent(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*guest)
		want   string
	}{
		{"without consent", func(g *guest) { g.consent = nil }, "lacks the exports"},
		{"without connect", func(g *guest) { g.connect = nil }, "lacks the exports"},
		{"without a state", func(g *guest) { g.about.State, g.about.Answers = nil, nil }, "no answer has a state"},
		{"with a seed", func(g *guest) { g.about.State[0].Seed = "client_secret" }, "has a seed"},
	} {
		g := consenter()
		test.change(g)
		h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
		if err == nil {
			_ = h.Close(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
	}
}
