package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
	"github.com/keywright/keywright/sdk"
)

var run = plugintest.Of(plugin{}, "jwt.wasm")

// config returns a configuration with these claims. Further fields are pairs of name and value.
func config(claims map[string]any, pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"private_key": "{{ get_secret('key') }}", "claims": claims}, pairs...)
}

// authenticate sends a request and returns the header and the claims of its token.
func authenticate(t *testing.T, h *hosttest.Harness, c hosttest.Config) (header, claims map[string]any) {
	t.Helper()
	got := h.Authenticate(c, hosttest.GET("https://api.test/v1"))
	if n := len(got.Request.Header); n != 1 {
		t.Errorf("%d headers", n)
	}
	return h.JWT(got.Header("Authorization"))
}

// Every algorithm signs a compact JWT, sent in Authorization: Bearer. The default is RS256
// (specification.md 3.10, 3.17 and 3.18).
func TestEveryAlgorithm(t *testing.T) {
	for _, algorithm := range append(sdk.Algorithms(), "") {
		run.Case(t, "algorithm "+algorithm, func(t *testing.T, h *hosttest.Harness) {
			c, want := config(map[string]any{"sub": "{{ user.email }}"}), algorithm
			if algorithm == "" {
				want = "RS256"
			} else {
				c["algorithm"] = algorithm
			}
			key := h.Key("key", want)
			h.As(host.User{Email: "ann@example.com"})
			got := h.Authenticate(c, hosttest.GET("https://api.test/v1"))
			token, found := strings.CutPrefix(got.Header("Authorization"), "Bearer ")
			parsed, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{want}))
			if err != nil || !found {
				t.Fatalf("%s: err = %v", got.Header("Authorization"), err)
			}
			if subject, _ := parsed.Claims.GetSubject(); subject != "ann@example.com" {
				t.Errorf("claims: %v", parsed.Claims)
			}
			plugintest.Warns(t, h, "")
		})
	}
}

// Every request gets a new JWT, so that exp and iat follow the clock (specification.md 3.10).
func TestSignedForEveryRequest(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		c := config(map[string]any{"iat": "{{ now() }}", "exp": "{{ now(300) }}", "nbf": "{{ now(-60) }}"}, "algorithm", "ES256")
		for range 2 {
			_, claims := authenticate(t, h, c)
			now := h.Now().Unix()
			for name, want := range map[string]int64{"iat": now, "exp": now + 300, "nbf": now - 60} {
				if claims[name] != json.Number(fmt.Sprint(want)) {
					t.Errorf("%s is %#v, %d is right", name, claims[name], want)
				}
			}
			h.Advance(time.Second)
		}
		plugintest.Exchanges(t, h, 0)
	})
}

// Numeric strings in exp, iat and nbf become integers, and names of claims are not templates (specification.md 3.11,
// specification.md "exp, iat, nbf are cast" and "keys of objects are plain").
func TestClaims(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		secret := h.Canary("inside")
		h.Key("key", "HS256")
		h.Variable("region", "eu")
		_, claims := authenticate(t, h, config(map[string]any{
			"exp": "1767323045.9", "iat": "-1", "nbf": "tomorrow",
			"number": 12.50, "text": "42", "yes": true, "nothing": nil,
			"deep":    map[string]any{"list": []any{"{{ get_variable('region') }}-1", 7, map[string]any{"x": "{{ 1 + 1 }}", "exp": "5"}}},
			"secret":  "a {{ get_secret('inside') }} b",
			"{{ x }}": "names are plain text",
		}, "algorithm", "HS256"))
		want := map[string]any{
			"exp": json.Number("1767323045"), "iat": json.Number("-1"), "nbf": "tomorrow",
			"number": json.Number("12.5"), "text": "42", "yes": true, "nothing": nil,
			"deep": map[string]any{"list": []any{
				"eu-1", json.Number("7"), map[string]any{"x": "2", "exp": "5"},
			}},
			"secret": "a " + secret + " b", "{{ x }}": "names are plain text",
		}
		if !reflect.DeepEqual(claims, want) {
			t.Errorf("claims\n%#v, not\n%#v", claims, want)
		}
	})
}

// Names of header members that differ from reserved ones in case only are refused at load, not only in each request
// (threats.md 67).
func TestReservedHeaderMembers(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		for _, name := range []string{"Alg", "CRIT", "B64", "TYP", "tYp"} {
			plugintest.Problems(t, h, config(map[string]any{}, "jwt_headers", map[string]any{name: "x"}), "jwt_headers."+name)
		}
	})
}

// The header has alg, typ: JWT and the members of jwt_headers, which may replace typ
// (specification.md 3.12, specification.md "header").
func TestHeaders(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS512")
		for _, test := range []struct{ set, want map[string]any }{
			{nil, map[string]any{"alg": "HS512", "typ": "JWT"}},
			{map[string]any{"kid": "key-{{ 1 + 1 }}", "n": 1}, map[string]any{"alg": "HS512", "typ": "JWT", "kid": "key-2", "n": json.Number("1")}},
			{map[string]any{"typ": "at+jwt"}, map[string]any{"alg": "HS512", "typ": "at+jwt"}},
		} {
			c := config(map[string]any{}, "algorithm", "HS512")
			if test.set != nil {
				c["jwt_headers"] = test.set
			}
			if header, _ := authenticate(t, h, c); !maps.Equal(header, test.want) {
				t.Errorf("jwt_headers %v: %v", test.set, header)
			}
		}
	})
}

// The header members alg, crit and b64 are refused (specification.md "header", threats.md 39).
func TestFixedHeaders(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		plugintest.Problems(t, h, config(map[string]any{}, "jwt_headers", map[string]any{"alg": "none", "crit": []any{"b64"}, "b64": false, "kid": "k"}),
			"jwt_headers.alg jwt_headers.b64 jwt_headers.crit")
	})
}

// A key that does not fit the algorithm is an error at its first use. The error names the field and the algorithm, never
// the key (specification.md "key does not fit the algorithm", threats.md 36, 37).
func TestUnfitKeys(t *testing.T) {
	for _, test := range []struct{ name, key, algorithm string }{
		{"EC key with RS256", "ES256", "RS256"},
		{"P-256 with ES384", "ES256", "ES384"},
		{"PEM with HS256", "RS256", "HS256"},
		{"text with EdDSA", "HS256", "EdDSA"},
		{"Ed25519 with PS512", "EdDSA", "PS512"},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", test.key)
			c := config(map[string]any{"a": "b"}, "algorithm", test.algorithm)
			err := h.AuthenticateError(c, hosttest.GET("https://api.test"))
			if err.Stage != host.StageSign || !strings.Contains(err.Error(), "private_key") || !strings.Contains(err.Error(), test.algorithm) {
				t.Errorf("stage %s: %v", err.Stage, err)
			}
		})
	}
}

// An HMAC key shorter than the hash is allowed, with one warning (specification.md "HS key shorter than the hash").
func TestShortHMACKey(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", "thirty-one bytes, one too short")
		for range 3 {
			authenticate(t, h, config(map[string]any{}, "algorithm", "HS256"))
		}
		plugintest.Warns(t, h, "private_key")
	})
}

// Without the secret or the user that a template uses, the request fails before anything is sent, and the error names the
// field (specification.md "secret not found" and "user used, no user given").
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			`secret "key"`: config(map[string]any{}),
			"claims":       {"private_key": "a key that is written out", "algorithm": "HS256", "claims": map[string]any{"sub": "{{ user.email }}"}},
			"algorithm is none of": {
				"private_key": "a key that is written out", "algorithm": "{{ user.id | default('hs256') }}", "claims": map[string]any{},
			},
			"64 bits": {"private_key": "a key that is written out", "algorithm": "HS256", "claims": map[string]any{"exp": "99999999999999999999"}},
		} {
			plugintest.Refuses(t, h, c, hosttest.GET("https://api.test"), "", text)
		}
	})
}

// All problems are reported at once (specification.md "every problem at once").
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"private_key claims":    {},
			"algorithm":             config(map[string]any{}, "algorithm", "none"),
			"claims jwt_headers":    {"private_key": "x", "claims": "sub", "jwt_headers": []any{}},
			"claims.sub":            config(map[string]any{"sub": "{{ usr.email }}"}),
			"private_key token_url": {"private_key": " ", "claims": map[string]any{}, "token_url": "https://login.test"},
			"":                      config(map[string]any{}),
		} {
			plugintest.Problems(t, h, c, text)
		}
	})
}

// An explanation shows the header and the claims, and not the JWT.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS256")
		h.Canary("inside")
		e := h.Explain(config(map[string]any{"s": "{{ get_secret('inside') }}"}, "algorithm", "HS256"), hosttest.GET("https://api.test"))
		want := `Bearer <jwt {"alg":"HS256","typ":"JWT"}.{"s":"{{ get_secret('inside') }}"}>`
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != want {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
