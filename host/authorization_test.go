package host_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// consenter returns a guest with consent. Its functions may be replaced.
func consenter() *guest {
	secret := []string{contract.SinkToken}
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
	w.canaryOf("s", "the secret of the client")
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
			if _, ok := errors.AsType[*host.Error](err); !ok {
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
		"a parameter beside a key that the host makes": func(env contract.Env, r *contract.ConsentRequest) {
			r.Query = []abi.Pair{{Name: "dpop_jkt", Value: env.PublicKey("key", contract.PublicThumbprint)}, {Name: "a", Value: sealed(env)}}
		},
		"a parameter beside an assertion with a certificate": func(env contract.Env, r *contract.ConsentRequest) {
			sign(env, contract.JWTRequest[map[string]any]{Key: "hmac", For: contract.ForToken, Header: config{"x5t#S256": env.PublicKey("certificate", contract.PublicX5T)}})
			r.Query = []abi.Pair{{Name: "a", Value: sealed(env)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := consenter()
			g.about.Uses = contract.Groups
			g.about.Fields = append(g.about.Fields, abi.Field{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Generate: true},
				abi.Field{Name: "algorithm", Kind: abi.KindString, Enum: []string{"ES256"}, Default: "ES256"}, abi.Field{Name: "certificate", Kind: abi.KindCertificate},
				abi.Field{Name: "hmac", Kind: abi.KindKey, AlgorithmField: "mac", EncodingField: "encoding"}, abi.Field{Name: "mac", Kind: abi.KindString, Enum: []string{"HS256"}, Default: "HS256"},
				abi.Field{Name: "encoding", Kind: abi.KindString, Enum: []string{"hex"}, Default: "hex"})
			g.consent = func(env contract.Env) (string, error) {
				r := contract.ConsentRequest{URL: value(env, "authorization_url")}
				change(env, &r)
				return marshal(r), nil
			}
			w := consenting(t).world(withoutBuiltIns, withGuest(g))
			problems := w.problems("consenter", config{
				"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL, "client_secret": "{{ get_secret('s') }}",
				"certificate": "{{ get_secret('c') }}", "hmac": "{{ get_secret('k') }}",
			})
			if len(problems) != 1 || !strings.HasPrefix(problems[0], "auth.config.client_secret: a secret is in the authorization request") {
				t.Errorf("the problems are %q", problems)
			}
		})
	}
}

// threats.md 470 and 15a: what goes into a pushed request has the sink token, and the token of an identity goes to a host of its audience.
// Nothing sealed is the name of a parameter.
func TestPushedSinks_threats_470(t *testing.T) {
	jwt := func(destination string) func(contract.Env) string {
		return func(env contract.Env) string {
			return sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: destination})
		}
	}
	field := func(name string) func(contract.Env) string {
		return func(env contract.Env) string { return value(env, name) }
	}
	for name, kind := range map[string]struct {
		make     func(contract.Env) string
		identity string
		want     bool
	}{
		"plain text":               {func(contract.Env) string { return "a" }, "", true},
		"the secret of the client": {field("client_secret"), "", true},
		"a part of a text": {func(env contract.Env) string {
			return env.Encode(contract.FormatBase64, "me:"+value(env, "client_secret"))
		}, "", true},
		"a key for the API":             {field("to_header"), "", false},
		"both":                          {func(env contract.Env) string { return value(env, "client_secret") + value(env, "to_header") }, "", false},
		"a JWT for the token endpoint":  {jwt(contract.ForToken), "", true},
		"a JWT for the API":             {jwt(contract.ForHeader), "", false},
		"an identity's token":           {field("identity"), "login", true},
		"that of an audience elsewhere": {field("identity"), "bank", false},
		"a secret beside an identity":   {field("client_secret"), "bank", true},
	} {
		for place, put := range map[string]func(*contract.ConsentRequest, string){
			"a parameter":   func(r *contract.ConsentRequest, v string) { r.Push.Form = []abi.Pair{{Name: "a", Value: v}} },
			"the client_id": func(r *contract.ConsentRequest, v string) { r.Push.Form = []abi.Pair{{Name: "client_id", Value: v}} },
			"a header":      func(r *contract.ConsentRequest, v string) { r.Push.Headers = []abi.Pair{{Name: "X-A", Value: v}} },
			"a name":        func(r *contract.ConsentRequest, v string) { r.Push.Form = []abi.Pair{{Name: v, Value: "a"}} },
		} {
			t.Run(name+"/"+place, func(t *testing.T) {
				g := consenter()
				g.about.Uses = contract.Groups
				g.about.Fields = append(g.about.Fields, sealedField("to_header", contract.SinkHeader), sealedField("identity", contract.SinkToken),
					abi.Field{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"}, abi.Field{Name: "algorithm", Kind: abi.KindString, Enum: []string{"HS256"}, Default: "HS256"})
				g.consent = func(env contract.Env) (string, error) {
					r := contract.ConsentRequest{URL: value(env, "authorization_url"), Query: []abi.Pair{{Name: "client_id", Value: "me"}}, Push: &contract.Push{URL: value(env, "token_url")}}
					put(&r, kind.make(env))
					return marshal(r), nil
				}
				s := &issuers{subject: "system:orders", hosts: map[string][]string{"bank": {"bank.test"}, "login": {"login.test"}}}
				w := newCluster(t, respond(http.StatusCreated, `{"request_uri":"urn:example:1","expires_in":60}`)).world(withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Identities = s })
				s.hide = w.Hide
				w.canary("key")
				auth := config{
					"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL,
					"client_secret": "{{ get_secret('s') }}", "to_header": "{{ get_secret('s') }}", "key": "{{ get_secret('key') }}",
				}
				if kind.identity != "" {
					auth["identity"] = "{{ identity('pod', '" + kind.identity + "') }}"
				}
				connector, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: "consenter", Config: auth}}})
				if err == nil {
					_, err = connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
					w.OutError("the error of Consent", err)
				}
				if want := kind.want && (place != "a name" || name == "plain text"); (err == nil) != want {
					t.Errorf("the error is %v, want one: %t", err, !want)
				}
			})
		}
	}
}

// The identifier of the client, which a browser sees, may be a variable, and no secret. An endpoint may be a discovered one.
func TestSecretClientID(t *testing.T) {
	w := consenting(t).world(func(h *host.Config) {
		withAuthCode(h)
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
	check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code-of-alice")))
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
		testworld.WantError(t, test.name, loadError(t, g), test.want)
	}
}

// An iss that comes back is compared whether or not the server promises it, byte by byte with the issuer, or by its origin where no
// issuer is known. It must come where the metadata promises it (RFC 9207 sections 2.4 and 3), and only there (threats.md 129). test/mcp
// has the judge.
func TestIssOfAConsent(t *testing.T) {
	const code, promise = "the-code-of-alice", `"authorization_response_iss_parameter_supported":`
	discovered := []any{"authorization_url", "{{ discover('https://login.test', 'authorization_endpoint') }}"}
	explicit := []any{"authorization_url", "https://LOGIN.test:443/authorize"}
	const right, wrong = "https://login.test", "https://evil.test"
	for name, c := range map[string]struct {
		change   []any
		metadata string
		iss      []string
		counts   bool
	}{
		"promised and there":             {discovered, promise + "true,", []string{right}, true},
		"neither":                        {discovered, "", nil, true},
		"promised and missing":           {discovered, promise + "true,", nil, false},
		"promised and wrong":             {discovered, promise + "true,", []string{wrong}, false},
		"wrong without a promise":        {discovered, "", []string{wrong}, false},
		"right without a promise":        {discovered, promise + "false,", []string{right}, true},
		"a promise that is a text":       {discovered, promise + `"true",`, nil, true},
		"another spelling":               {discovered, promise + "true,", []string{right + "/"}, false},
		"empty":                          {discovered, "", []string{""}, false},
		"another one written out":        {append(discovered, "issuer", wrong), "", []string{right}, false},
		"promised, and written out":      {append(discovered, "issuer", right), promise + "true,", nil, false},
		"written out":                    {append(explicit, "issuer", right+"/a"), "", []string{right + "/a"}, true},
		"written out, another path":      {append(explicit, "issuer", right+"/a"), "", []string{right + "/b"}, false},
		"written out, none sent":         {append(explicit, "issuer", right), "", nil, true},
		"unknown, none sent":             {explicit, "", nil, true},
		"unknown, of the origin":         {explicit, "", []string{right + "/realms/a"}, true},
		"unknown, of another host":       {explicit, "", []string{wrong}, false},
		"unknown, of another port":       {explicit, "", []string{right + ":444"}, false},
		"unknown, of plain http":         {explicit, "", []string{"http://login.test"}, false},
		"unknown, of the host as a user": {explicit, "", []string{"https://login.test@evil.test"}, false},
		"unknown, no URL":                {explicit, "", []string{"login.test"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIssuer(code)
			cluster := newCluster(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					return s.answer(r)
				}
				return respond(http.StatusOK, `{"issuer":"https://login.test",`+c.metadata+`"authorization_endpoint":"https://login.test/authorize"}`)(r)
			})
			w, connector := consents(cluster, c.change...)
			b := back(begin(t, connector, alice), code)
			if c.iss != nil {
				b.Response["iss"] = c.iss
			}
			err := finish(t, w, connector, alice, b)
			var failure *host.ConsentError
			if forged := errors.As(err, &failure) && failure.Reason == host.ConsentForged; forged == c.counts || !forged && err != nil {
				t.Errorf("the error is %v", err)
			}
			if redeemed := s.spent[code]; redeemed != c.counts {
				t.Errorf("the code was redeemed: %t", redeemed)
			}
		})
	}
}

// A consent goes to the endpoints that the issuer names. If a node cannot learn them, a user can still disconnect: the grant is
// forgotten, and the error says that the server has not revoked it.
func TestConsentByDiscovery(t *testing.T) {
	s := newIssuer("the-first-code")
	down := false
	c := newCluster(t, func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodPost:
			return s.answer(r)
		case down:
			return status(http.StatusServiceUnavailable)(r)
		}
		return respond(http.StatusOK, `{"issuer":"https://login.test","authorization_endpoint":"https://login.test/authorize",`+
			`"token_endpoint":"https://login.test/token","revocation_endpoint":"https://login.test/revoke"}`)(r)
	})
	change := []any{
		"authorization_url", "{{ discover('https://login.test', 'authorization_endpoint') }}", "token_url", discoverToken,
		"revocation_url", "{{ discover('https://login.test', 'revocation_endpoint') }}",
	}
	w, connector := consents(c, change...)
	target, err := connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
	if err != nil || !strings.HasPrefix(target, "https://login.test/authorize?") {
		t.Fatalf("the browser goes to %s: %v", target, err)
	}
	check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-first-code")))
	if got := w.send(connector, get(forUser(t, alice))).Header.Get("Authorization"); !strings.HasPrefix(got, "Bearer access-token-") {
		t.Errorf("the API gets %q", got)
	}
	var attempts []host.Attempt
	for _, call := range w.calls {
		if call.Consent {
			attempts = append(attempts, host.Attempt{Exchanges: call.Exchanges, Discoveries: call.Discoveries})
		}
	}
	if want := []host.Attempt{{Discoveries: 1}, {}, {Exchanges: 1}}; !slices.Equal(attempts, want) { // two begin, and one ends
		t.Errorf("Observe is called with %+v, want %+v", attempts, want)
	}

	down = true
	world, connector := consents(c, change...)
	var metadata *host.DiscoveryError
	if _, err := connector.BeginConsent(forUser(t, bob), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding}); !errors.As(err, &metadata) {
		t.Errorf("the error of a consent is %v", err)
	}
	if err := connector.Disconnect(forUser(t, alice)); !errors.Is(err, host.ErrNotRevoked) || !errors.As(err, &metadata) {
		t.Errorf("the error of Disconnect is %v", err)
	}
	if n := len(world.calls); n != 2 || world.calls[0].Discoveries != 1 || world.calls[0].Err == nil || !world.calls[1].Consent {
		t.Errorf("Observe is called %d times: %+v", n, world.calls)
	}
	if found, err := connector.Connection(forUser(t, alice)); err != nil || found.Condition != host.ConditionNotConnected {
		t.Errorf("the connection is %v, %v", found, err)
	}
}
