package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
	"github.com/keywright/keywright/sdk"
)

const endpoint = "https://login.test/token"

var run = plugintest.Of(plugin{}, "jwtbearer.wasm")

// config returns a complete configuration. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"client_id": "me", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256", "token_url": endpoint,
		"subject": "{{ user.email | default('service') }}", "audience": "https://login.test",
	}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// sentAssertion returns the header and the claims of the last assertion.
func sentAssertion(h *hosttest.Harness) (header, claims map[string]any) {
	exchanges := h.Exchanges()
	return h.JWT(exchanges[len(exchanges)-1].Form.Get("assertion"))
}

// The assertion is sent to the token endpoint and never to the API (specification.md 3.13, 3.14 and 3.15).
func TestExchange(t *testing.T) {
	for _, algorithm := range append(sdk.Algorithms(), "") {
		run.Case(t, "algorithm "+algorithm, func(t *testing.T, h *hosttest.Harness) {
			c, want := config("algorithm", algorithm), algorithm
			if algorithm == "" {
				delete(c, "algorithm")
				want = "RS256"
			}
			key := h.Key("key", want)
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
			h.As(host.User{Email: "ann@example.com"})
			got := h.Authenticate(c, get())
			if got.Header("Authorization") != "Bearer the-access-token" || len(got.Request.Header) != 1 {
				t.Errorf("headers: %v", got.Request.Header)
			}
			exchange := h.Exchanges()[0]
			if len(exchange.Form) != 2 || exchange.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
				t.Errorf("form: %v", exchange.Form)
			}
			_, err := jwt.Parse(exchange.Form.Get("assertion"), func(*jwt.Token) (any, error) { return key, nil },
				jwt.WithValidMethods([]string{want}), jwt.WithTimeFunc(h.Now))
			if err != nil {
				t.Error(err)
			}
			header, claims := sentAssertion(h)
			now := h.Now().Unix()
			if !maps.Equal(header, map[string]any{"alg": want, "typ": "JWT"}) {
				t.Errorf("header: %v", header)
			}
			if !maps.Equal(claims, map[string]any{
				"iss": "me", "sub": "ann@example.com", "aud": "https://login.test",
				"iat": json.Number(fmt.Sprint(now)), "exp": json.Number(fmt.Sprint(now + 180)),
			}) {
				t.Errorf("claims: %v", claims)
			}
		})
	}
}

// A token is cached for token_ttl, 3600 by default, whether or not the answer has an expires_in
// (specification.md 3.16 and 4.3).
func TestTokenLifetime(t *testing.T) {
	for _, test := range []struct {
		name   string
		ttl    any
		last   time.Duration // the last time at which the token is used
		answer string
	}{
		{"default", nil, 3539 * time.Second, `{"access_token":"the-access-token"}`},
		{"integer", 300, 239 * time.Second, `{"access_token":"the-access-token","expires_in":300}`},
		{"longer expires_in", json.Number("300"), 239 * time.Second, `{"access_token":"the-access-token","expires_in":86400}`},
		{"numeric text", "61", 0, `{"access_token":"the-access-token"}`},
		{"template", "{{ get_variable('ttl') }}", 7139 * time.Second, `{"access_token":"the-access-token"}`},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Variable("ttl", "7200")
			h.Key("key", "ES256")
			h.TokenEndpoint(endpoint, hosttest.JSON(200, test.answer))
			c := config()
			if test.ttl != nil {
				c["token_ttl"] = test.ttl
			}
			plugintest.Lasts(t, h, c, get(), "Bearer the-access-token", test.last)
			plugintest.Warns(t, h, "")
		})
	}
}

// A shorter expires_in does not change the cache time of token_ttl − 60 seconds, and causes a warning
// (specification.md "oauth_jwt_bearer and a shorter expires_in").
func TestAShorterExpiresIn(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 1800))
		h.Authenticate(config(), get())
		h.Advance(3539 * time.Second)
		h.Authenticate(config(), get())
		plugintest.Exchanges(t, h, 1)
		h.Advance(time.Second)
		h.Authenticate(config(), get())
		plugintest.Warns(t, h, "shorter than token_ttl")
	})
}

// With a token_ttl of 60 or less the token is not cached, with one warning (specification.md "token_ttl short").
func TestATimeToLiveOfAMinute(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		for range 3 {
			h.Authenticate(config("token_ttl", 60), get())
		}
		plugintest.Exchanges(t, h, 3)
		plugintest.Warns(t, h, "not cached")
	})
}

// The field token_ttl is a JSON integer above 0, or a template that renders to one (specification.md "integers", threats.md 33).
func TestInvalidLifetimes(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		for _, ttl := range []any{0, -1, 1.5, true, "", "soon", "1h", "12.0", "99999999999999999999", []any{}} {
			plugintest.Problems(t, h, config("token_ttl", ttl), "token_ttl")
		}
		for _, ttl := range []string{"0", "-3600", "soon", "12.0", "99999999999999999999"} {
			h.As(host.User{ID: ttl})
			plugintest.Refuses(t, h, config("token_ttl", "{{ user.id }}"), get(), host.StageConfig, "token_ttl")
		}
		// The largest integer does not overflow, and the token does not stay valid forever.
		h.Authenticate(config("token_ttl", "9223372036854775807"), get())
		earlier := len(h.Exchanges())
		h.Advance(250 * 365 * 24 * time.Hour)
		h.Authenticate(config("token_ttl", "9223372036854775807"), get())
		if len(h.Exchanges()) == earlier {
			t.Error("the token is valid for ever")
		}
	})
}

// Claims such as EXP and ſub are refused: many readers of JSON take them for exp and sub, and use the last one
// (threats.md 67).
func TestReservedClaims(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		for field, names := range map[string][]string{
			"additional_claims": {"Iss", "iſs", "SUB", "ſub", "Aud", "iAt", "EXP"},
			"jwt_headers":       {"Alg", "CRIT", "B64", "TYP", "tYp"},
		} {
			for _, name := range names {
				plugintest.Problem(t, h, config(field, map[string]any{name: "x"}), field+"."+name+": ignore case")
			}
		}
		plugintest.Problems(t, h, config("additional_claims", map[string]any{"subject": "x", "su": "x", "NBF": 1, "": "x"}), "")
	})
}

// The members of additional_claims and jwt_headers are added to the assertion, and numeric strings are converted as in jwt
// (specification.md 3.13, specification.md "exp, iat, nbf are cast" and "header").
func TestAdditionalClaimsAndHeaders(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 0))
		c := config("token_ttl", 1, "jwt_headers", map[string]any{"kid": "key-2"}, "additional_claims", map[string]any{
			"jti": "{{ uuid() }}", "nbf": "{{ now(-5) }}", "scope": "a \"b\" \\ \n c", "n": "7", "deep": map[string]any{"x": []any{1, "{{ user.id | default('-') }}"}},
		})
		ids := map[any]bool{}
		for range 2 {
			h.Authenticate(c, get())
			header, claims := sentAssertion(h)
			if header["kid"] != "key-2" || header["typ"] != "JWT" {
				t.Errorf("header: %v", header)
			}
			if jti, _ := claims["jti"].(string); len(jti) != 36 || ids[jti] {
				t.Errorf("jti: %v", claims["jti"])
			}
			ids[claims["jti"]] = true
			if claims["nbf"] != json.Number(fmt.Sprint(h.Now().Unix()-5)) || claims["n"] != "7" || claims["scope"] != "a \"b\" \\ \n c" ||
				fmt.Sprint(claims["deep"]) != "map[x:[1 -]]" || claims["sub"] != "service" || len(claims) != 10 {
				t.Errorf("claims: %v", claims)
			}
		}
	})
}

// A configuration with a fixed claim or header member is refused
// (threats.md 39, specification.md "additional_claims that are fixed" and "header").
func TestFixedMembers(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		plugintest.Problems(t, h, config(
			"additional_claims", map[string]any{"iss": "x", "sub": "x", "aud": "x", "iat": 1, "exp": "x", "jti": "x"},
			"jwt_headers", map[string]any{"alg": "x", "crit": "x", "b64": "x", "kid": "x"},
		), "additional_claims.aud additional_claims.exp additional_claims.iat additional_claims.iss additional_claims.sub "+
			"jwt_headers.alg jwt_headers.b64 jwt_headers.crit")
	})
}

// The error has the status, the code, and the time for which the endpoint is not asked again (specification.md "answer is no
// token" and "the endpoint refuses").
func TestAnswersWithoutToken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.JSON(400, `{"error":"invalid_grant"}`),
			hosttest.JSON(200, `{"access_token":"the-access-token","token_type":"mac"}`), hosttest.Token("the-access-token", 3600))
		err := h.AuthenticateError(config(), get())
		var answer *host.TokenError
		if !errors.As(err, &answer) || answer.Status != 400 || answer.Code != "invalid_grant" || err.Stage != host.StageToken {
			t.Fatalf("stage %s: %v", err.Stage, err)
		}
		h.Advance(answer.RetryAfter)
		if err := h.AuthenticateError(config(), get()); !strings.Contains(err.Error(), "another type than bearer") {
			t.Error(err)
		}
		h.Authenticate(config(), get())
	})
}

// A key that does not fit the algorithm fails the request before the endpoint is asked, and the next request tries again
// (specification.md "key does not fit the algorithm").
func TestUnfitKey(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		err := h.AuthenticateError(config(), get())
		if err.Stage != host.StageSign || !strings.Contains(err.Error(), "private_key") || len(h.Exchanges()) != 0 {
			t.Errorf("stage %s, %d exchanges: %v", err.Stage, len(h.Exchanges()), err)
		}
		h.Key("key", "ES256")
		h.Authenticate(config(), get())
	})
}

// A cached token is used only for the same user and key (specification.md "whose token", threats.md 29).
func TestTokenOwner(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("first-token", 0), hosttest.Token("second-token", 0), hosttest.Token("third-token", 0))
		for _, step := range []struct{ email, want string }{
			{"ann@example.com", "first-token"},
			{"bob@example.com", "second-token"},
			{"ann@example.com", "first-token"},
		} {
			h.As(host.User{Email: step.email})
			plugintest.Sends(t, h, config(), get(), "Bearer "+step.want)
		}
		h.Key("key", "ES256")
		plugintest.Sends(t, h, config(), get(), "Bearer third-token")
	})
}

// All problems are reported at once, each with its path (specification.md "every problem at once").
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"client_id private_key token_url subject audience": {},
			"token_url algorithm":                              config("token_url", "http://login.test", "algorithm", "es256"),
			"additional_claims jwt_headers scope":              config("additional_claims", "x", "jwt_headers", 1, "scope", "x"),
			"":                                                 config(),
		} {
			plugintest.Problems(t, h, c, text)
		}
	})
}

// An explanation sends no token request, and shows neither a token nor an assertion.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		e := h.Explain(config(), get())
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "Bearer <token>" || len(h.Exchanges()) != 0 {
			t.Errorf("added: %+v, %d exchanges", e.Added, len(h.Exchanges()))
		}
	})
}

// Nothing but the grant and the assertion is sent unless the configuration has more. Then that follows
// (specification.md 3.14 and 3.27).
func TestClientAuth(t *testing.T) {
	const grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
	for _, test := range []struct {
		name         string
		config       hosttest.Config
		more, header string
	}{
		{"by default", config(), "", ""},
		{"none", config("client_auth", "none"), "", ""},
		{"post", config("client_auth", "client_secret_post", "client_secret", "{{ get_secret('crm') }}"), "&client_id=me&client_secret=a%3Ab+c-secret", ""},
		{
			"basic", config("client_auth", "client_secret_basic", "client_secret", "{{ get_secret('crm') }}"), "",
			"Basic " + base64.StdEncoding.EncodeToString([]byte("me:a%3Ab+c-secret")),
		},
		{"tls", config("client_auth", "tls_client_auth"), "&client_id=me", ""},
		{"parameters", config("parameters", map[string]any{"scope": "a b", "resource": []any{"urn:a", "urn:b"}}), "&resource=urn%3Aa&resource=urn%3Ab&scope=a+b", ""},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", "ES256")
			h.Secret("crm", "a:b c-secret")
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
			h.Authenticate(test.config, get())
			got := h.Exchanges()[0]
			if got.Body != grant+got.Form.Get("assertion")+test.more || got.Header.Get("Authorization") != test.header {
				t.Errorf("the request is %s\nAuthorization: %s", got.Body, got.Header.Get("Authorization"))
			}
		})
	}
}

// With private_key_jwt, the client's assertion is another one than that of the grant: it is about the client, for the token
// endpoint.
func TestPrivateKeyJWT(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		h.Authenticate(config("client_auth", "private_key_jwt", "jwt_headers", map[string]any{"kid": "k"}), get())
		form := h.Exchanges()[0].Form
		if form.Get("client_id") != "me" || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || len(form) != 5 {
			t.Errorf("the form is %v", form)
		}
		for name, want := range map[string][3]string{
			"assertion": {"me", "service", "https://login.test"}, "client_assertion": {"me", "me", endpoint},
		} {
			parsed := testworld.Must(jwt.Parse(form.Get(name), func(*jwt.Token) (any, error) { return key, nil }, jwt.WithTimeFunc(h.Now)))(t)
			issuer, _ := parsed.Claims.GetIssuer()
			subject, _ := parsed.Claims.GetSubject()
			audience, _ := parsed.Claims.GetAudience()
			if got := [3]string{issuer, subject, strings.Join(audience, " ")}; got != want || parsed.Header["kid"] != "k" {
				t.Errorf("%s is %v with the header %v, want %v", name, got, parsed.Header, want)
			}
		}
	})
}

// What the type sets itself is no further parameter, and a client that authenticates needs what it does that with.
func TestProblemsOfTheClient(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for want, c := range map[string]hosttest.Config{
			"client_secret: is missing, and client_auth is client_secret_basic: OAuth client secret":                                  config("client_auth", "client_secret_basic"),
			"client_secret: has no effect unless client_auth is client_secret_post or client_secret_basic: remove it, or change that": config("client_secret", "{{ get_secret('crm') }}"),
			"certificate: has no effect unless client_auth is private_key_jwt: remove it, or change that":                             config("certificate", "c"),
			"client_assertion_audience: has no effect unless client_auth is private_key_jwt: remove it, or change that":               config("client_assertion_audience", "a"),
			"parameters.assertion: is set by the type or by another field, remove it":                                                 config("parameters", map[string]any{"assertion": "a"}),
			"parameters.client_id: is set by the type or by another field, remove it":                                                 config("parameters", map[string]any{"client_id": "a"}),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}

// The assertion may be one that another party has signed, such as a workload's identity.
func TestGivenAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("given", "header.claims.signature")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		c := hosttest.Config{"token_url": endpoint, "assertion": "{{ get_secret('given') }}", "token_request": "json", "parameters": map[string]any{"rule": "r"}}
		if got := h.Authenticate(c, get()).Header("Authorization"); got != "Bearer the-access-token" {
			t.Errorf("Authorization = %s, want the token", got)
		}
		want := `{"assertion":"header.claims.signature","grant_type":"urn:ietf:params:oauth:grant-type:jwt-bearer","rule":"r"}`
		if got := h.Exchanges()[0].Body; got != want {
			t.Errorf("body = %s, want %s", got, want)
		}
		plugintest.Problems(t, h, plugintest.With(c, "subject", "s", "audience", "a", "additional_claims", map[string]any{"b": "c"}), "subject audience additional_claims")
	})
}

// refusedAt returns a refusal by a server whose clock is ahead by a time.
func refusedAt(h *hosttest.Harness, lead time.Duration) hosttest.Answer {
	return plugintest.Dated(h, hosttest.JSON(http.StatusBadRequest, `{"error":"invalid_grant"}`), lead)
}

// A token endpoint whose clock differs from the host's gets a second assertion, with its own time, and later ones have that from the
// beginning. If it refuses that one too, it gets no third (threats.md 351).
func TestClockOfTheEndpoint(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		wantTime := func(exchanges int, lead time.Duration) {
			t.Helper()
			_, claims := sentAssertion(h)
			if n := len(h.Exchanges()); n != exchanges || claims["iat"] != json.Number(fmt.Sprint(h.Now().Add(lead).Unix())) {
				t.Errorf("%d exchanges, the last with the time %v", n, claims["iat"])
			}
		}
		h.TokenEndpoint(endpoint, refusedAt(h, -40*time.Second), hosttest.Token("the-first-token", 3600),
			hosttest.Token("the-second-token", 3600), refusedAt(h, time.Hour), refusedAt(h, time.Hour), refusedAt(h, time.Hour))
		h.Authenticate(config(), get())
		wantTime(2, -40*time.Second)
		h.Advance(time.Hour)
		h.Authenticate(config(), get())
		wantTime(3, -40*time.Second)
		h.Advance(time.Hour)
		err := h.AuthenticateError(config(), get())
		wantTime(5, time.Hour)
		var refusal *host.TokenError
		if !errors.As(err, &refusal) || refusal.RetryAfter == 0 {
			t.Fatalf("a second refusal: %v", err)
		}
		h.Advance(refusal.RetryAfter)
		h.AuthenticateError(config(), get())
		wantTime(6, time.Hour)
	})
}

// A Date that is more than a day away is not believed (threats.md 351).
func TestDistantClockOfTheEndpoint(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, refusedAt(h, 25*time.Hour), hosttest.Token("the-access-token", 3600))
		h.AuthenticateError(config(), get())
		plugintest.Exchanges(t, h, 1)
	})
}

// assertion_ttl is the lifetime of the assertion, as Box wants 60 seconds at most.
func TestLifetimeOfTheAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		h.Authenticate(config("assertion_ttl", 45), get())
		if _, claims := sentAssertion(h); claims["exp"] != json.Number(fmt.Sprint(h.Now().Unix()+45)) {
			t.Errorf("exp is %v", claims["exp"])
		}
		for _, ttl := range []int{0, 3601} {
			plugintest.Problems(t, h, config("assertion_ttl", ttl), "assertion_ttl")
		}
	})
}
