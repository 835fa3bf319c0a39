package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint  = "https://oauth2.googleapis.test/token"
	email     = "761326798069-r5mljlln1rd4lrbhg75efgigp36m78j5@developer.gserviceaccount.com" // of Google's documentation
	keyID     = "370ab79b4513eb9bad7c9bd16a95cb76b5b2a56a"
	scope     = "https://www.googleapis.com/auth/prediction https://www.googleapis.com/auth/devstorage.read_only"
	token     = "1/8xbJqaOZXSUZbHLl5EOtu1pxz3fmmetKx9W8CV4t79M"
	anIDToken = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL3J1bi50ZXN0In0.c2lnbmF0dXJlLW9mLWdvb2dsZQ"
)

var run = plugintest.Of(plugin{}, "googleserviceaccount.wasm")

// config returns a configuration with the members of a key file. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	member := func(name string) string { return "{{ json_get(get_secret('sa.json'), '" + name + "') }}" }
	return plugintest.With(hosttest.Config{
		"client_email": member("client_email"), "private_key": member("private_key"), "private_key_id": member("private_key_id"), "token_url": member("token_uri"),
	}, pairs...)
}

// selfSigning returns a configuration of self-signed JWTs.
func selfSigning(pairs ...any) hosttest.Config {
	return config(append([]any{"token_type", "self_signed_jwt", "token_url", nil}, pairs...)...)
}

// newKey makes the key of all tests. Making a key takes longer than a test.
var newKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func key(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key := testworld.Must(newKey())(t)
	return key
}

// keyFile sets the secret sa.json to a key file in Google's format.
func keyFile(t *testing.T, h *hosttest.Harness) {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key(t)))(t)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	file, err := json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "project-id", "private_key_id": keyID, "private_key": text, "client_email": email,
		"client_id": "103200000000000000000", "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": endpoint,
		"auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs", "universe_domain": "googleapis.com",
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	h.Secret("sa.json", string(file))
	h.Secret("sa.pem", text) // is searched for line by line
}

func get() *http.Request { return hosttest.GET("https://run.test/v1") }

// verified returns the header and claims of a JWT that the key of the file has signed.
func verified(t *testing.T, h *hosttest.Harness, signed string) (header, claims map[string]any) {
	t.Helper()
	signed = strings.TrimPrefix(signed, "Bearer ")
	_, err := jwt.Parse(signed, func(*jwt.Token) (any, error) { return &key(t).PublicKey, nil }, jwt.WithValidMethods([]string{"RS256"}), jwt.WithTimeFunc(h.Now), jwt.WithIssuedAt())
	if err != nil {
		t.Errorf("%s: err = %v", signed, err)
	}
	return h.JWT(signed)
}

// An assertion is exchanged for an access token or an ID token, as Google documents it
// (specification.md 3.42, specification.md "the lifetime of Google's JWTs").
func TestTokensOfTheEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		config  hosttest.Config
		answer  string
		claims  map[string]any
		want    string
		seconds int // for which the token is used
	}{
		"access token": {
			config("scope", scope), `{"access_token":"` + token + `","scope":"https://www.googleapis.com/auth/prediction","token_type":"Bearer","expires_in":3600}`,
			map[string]any{"scope": scope},
			token, 3540,
		},
		"for a shorter time": {
			config("scope", strings.ReplaceAll(scope, " ", "\n")+"\n", "token_type", "access_token"), `{"access_token":"` + token + `","token_type":"Bearer","expires_in":1800}`,
			map[string]any{"scope": scope},
			token, 1740,
		},
		"for a user of the domain": {
			config("scope", scope, "subject", "{{ user.email }}"), `{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600}`,
			map[string]any{"scope": scope, "sub": "ann@example.com"},
			token, 3540,
		},
		"ID token": {
			config("token_type", "id_token", "target_audience", "https://run.test"), `{"id_token":"` + anIDToken + `"}`,
			map[string]any{"target_audience": "https://run.test"},
			anIDToken, 3540,
		},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			keyFile(t, h)
			h.As(host.User{Email: "ann@example.com"})
			h.TokenEndpoint(endpoint, hosttest.JSON(200, test.answer))
			wantExchanges := func(pass, exchanges int) {
				t.Helper()
				h.Advance(time.Duration(pass) * time.Second)
				got := h.Authenticate(test.config, get())
				if got.Header("Authorization") != "Bearer "+test.want || len(got.Request.Header) != 1 {
					t.Errorf("headers: %v", got.Request.Header)
				}
				plugintest.Exchanges(t, h, exchanges)
			}
			wantExchanges(0, 1)
			now := h.Now().Unix()
			exchange := h.Exchanges()[0]
			if len(exchange.Form) != 2 || exchange.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
				t.Errorf("form: %v", exchange.Form)
			}
			header, claims := verified(t, h, exchange.Form.Get("assertion"))
			want := map[string]any{
				"iss": email, "aud": endpoint, "iat": json.Number(fmt.Sprint(now)), "exp": json.Number(fmt.Sprint(now + 3600)),
			}
			maps.Copy(want, test.claims)
			if !maps.Equal(header, map[string]any{"alg": "RS256", "typ": "JWT", "kid": keyID}) || !maps.Equal(claims, want) {
				t.Errorf("assertion: %v %v", header, claims)
			}
			wantExchanges(test.seconds-1, 1)
			wantExchanges(1, 2)
		})
	}
}

// A self-signed JWT is for a service or for scopes, needs no token endpoint, and is used until a minute before its end
// (specification.md 3.42).
func TestSelfSigned(t *testing.T) {
	for name, test := range map[string]struct {
		config hosttest.Config
		claims map[string]any
	}{
		"audience": {selfSigning("audience", "https://pubsub.googleapis.com/"), map[string]any{"aud": "https://pubsub.googleapis.com/"}},
		"scope":    {selfSigning("scope", scope), map[string]any{"scope": scope}},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			keyFile(t, h)
			first := h.Authenticate(test.config, get()).Header("Authorization")
			header, claims := verified(t, h, first)
			now := h.Now().Unix()
			want := map[string]any{"iss": email, "sub": email, "iat": json.Number(fmt.Sprint(now)), "exp": json.Number(fmt.Sprint(now + 3600))}
			maps.Copy(want, test.claims)
			if !maps.Equal(header, map[string]any{"alg": "RS256", "typ": "JWT", "kid": keyID}) || !maps.Equal(claims, want) {
				t.Errorf("JWT: %v %v", header, claims)
			}
			h.Advance(3539 * time.Second)
			if second := h.Authenticate(test.config, get()).Header("Authorization"); second != first {
				t.Error("another JWT was signed too early")
			}
			h.Advance(time.Second)
			if second := h.Authenticate(test.config, get()).Header("Authorization"); second == first {
				t.Error("the JWT is used to its end")
			}
			plugintest.Exchanges(t, h, 0)
		})
	}
}

// After a 401 of the API, another token is asked for or signed, and the request is sent once more.
func TestRevokedToken(t *testing.T) {
	for name, c := range map[string]hosttest.Config{
		"access token": config("scope", scope), "self-signed": selfSigning("audience", "https://pubsub.googleapis.com/"),
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			keyFile(t, h)
			h.TokenEndpoint(endpoint, hosttest.Token(token, 3600), hosttest.Token("another-access-token", 3600))
			first := h.Authenticate(c, get()).Header("Authorization")
			h.Advance(time.Second)
			h.API(hosttest.JSON(401, `{}`), hosttest.JSON(200, `{}`))
			if got := h.Authenticate(c, get()); got.Attempts != 2 || got.Header("Authorization") == first {
				t.Errorf("%d attempts", got.Attempts)
			}
		})
	}
}

// An assertion that Google refuses for its time is sent again with Google's time.
func TestClockOfGoogle(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		keyFile(t, h)
		h.TokenEndpoint(endpoint, plugintest.Dated(h, hosttest.JSON(http.StatusBadRequest, `{"error":"invalid_grant"}`), -time.Minute), hosttest.Token(token, 3600))
		h.Authenticate(config("scope", scope), get())
		_, claims := h.JWT(h.Exchanges()[1].Form.Get("assertion"))
		if claims["iat"] != json.Number(fmt.Sprint(h.Now().Unix()-60)) {
			t.Errorf("the second assertion has the time %v", claims["iat"])
		}
	})
}

// An ID token that is refused, and an answer without a token, are errors.
func TestRefusals(t *testing.T) {
	id := config("token_type", "id_token", "target_audience", "https://run.test")
	for name, test := range map[string]struct {
		config hosttest.Config
		answer hosttest.Answer
		text   string
	}{
		"access token refused": {config("scope", scope), hosttest.JSON(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`), "answered 400 (invalid_grant); it is asked again in 1s"},
		"ID token refused":     {id, hosttest.JSON(400, `{"error":"invalid_grant"}`), "answered 400 (invalid_grant); it is asked again in 1s: check client_email, private_key"},
		"no ID token":          {id, hosttest.Token(token, 3600), "answered 200 without id_token"},
		"no access token":      {config("scope", scope), hosttest.JSON(200, `{"id_token":"`+anIDToken+`"}`), "answered 200 without an access_token"},
		"another type":         {config("scope", scope), hosttest.JSON(200, `{"access_token":"`+token+`","token_type":"mac"}`), "another type than bearer"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			keyFile(t, h)
			h.TokenEndpoint(endpoint, test.answer)
			plugintest.Refuses(t, h, test.config, get(), host.StageToken, test.text)
		})
	}
}

// What only a request shows to be missing is an error before anything is signed or sent.
func TestMissingFields(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		keyFile(t, h)
		for text, configs := range map[string][]hosttest.Config{
			"either audience or scope": {selfSigning(), selfSigning("scope", scope, "audience", "{{ user.id | default('a') }}")},
		} {
			for _, c := range configs {
				plugintest.Refuses(t, h, c, get(), host.StagePlugin, text)
			}
		}
		h.Secret("sa.json", `{"type":"service_account","client_email":"`+email+`"}`)
		plugintest.Refuses(t, h, config("scope", scope), get(), host.StageTemplate, "there is no such member")
	})
}

// A token serves one request, with a warning, if it has no expires_in above 60 seconds.
func TestUncachedToken(t *testing.T) {
	for name, answer := range map[string]hosttest.Answer{"no expires_in": hosttest.JSON(200, `{"access_token":"`+token+`"}`), "60 seconds": hosttest.Token(token, 60)} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			keyFile(t, h)
			h.TokenEndpoint(endpoint, answer)
			for range 2 {
				h.Authenticate(config("scope", scope), get())
			}
			plugintest.Warns(t, h, "not cached")
			plugintest.Exchanges(t, h, 2)
		})
	}
}

// All problems are reported at once, each with its path.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"client_email private_key token_url scope": {},
			"scope":                                config(),
			"target_audience":                      config("token_type", "id_token"),
			"scope target_audience":                config("target_audience", "https://run.test"),
			"scope target_audience subject":        config("token_type", "id_token", "scope", scope, "subject", "ann@example.com"),
			"token_url target_audience subject":    selfSigning("scope", scope, "token_url", endpoint, "target_audience", "https://run.test", "subject", "a"),
			"token_url":                            config("scope", scope, "token_url", nil),
			"token_url target_audience":            config("token_type", "id_token", "token_url", nil),
			"audience":                             selfSigning("scope", scope, "audience", "https://pubsub.googleapis.com/"),
			"private_key_id":                       selfSigning("scope", scope, "private_key_id", nil),
			"algorithm token_type token_url scope": config("algorithm", "ES256", "token_type", "jwt", "token_url", "http://a.test", "scope", []any{"a"}),
			"":                                     config("scope", scope),
		} {
			plugintest.Problems(t, h, c, text)
		}
	})
}

// An explanation shows the token request, and neither an assertion nor a token.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		keyFile(t, h)
		for want, c := range map[string]hosttest.Config{
			"Bearer <token>":    config("scope", scope),
			"Bearer <id_token>": config("token_type", "id_token", "target_audience", "https://run.test"),
		} {
			e := h.Explain(c, get())
			if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != want || len(e.Steps) != 1 || len(h.Exchanges()) != 0 {
				t.Errorf("added: %+v, %d exchanges, steps %+v", e.Added, len(h.Exchanges()), e.Steps)
			}
		}
	})
}
