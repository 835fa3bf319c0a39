package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// Claims of the request are composed at any depth, with parts, and stand beside those of the configuration. Names are not composed.
func TestRequestClaims(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		body := `{"amount":1}`
		c := config(map[string]any{"sub": "k1", "exp": "{{ now(55) }}"}, "algorithm", "ES256", "jwt_headers", map[string]any{"kid": "k1"},
			"request_claims", map[string]any{"uri": "{target}", "bodyHash": "{body|sha256|hex}", "qsh": "{canonical|sha256|hex}", "{x}": []any{map[string]any{"m": "{method}"}, 1, `\{`}},
			"request_headers", map[string]any{"nonce": "{nonce}"}, "parts", map[string]any{"canonical": "{method}&{path}&{query|query_joined}"})
		got := h.Authenticate(c, hosttest.POST("https://api.test/v1/tx?b=1&a=2", body))
		header, claims := h.JWT(got.Header("Authorization"))
		if header["kid"] != "k1" || len(header["nonce"].(string)) != 32 || claims["sub"] != "k1" || claims["uri"] != "/v1/tx?b=1&a=2" {
			t.Errorf("header = %v, claims = %v", header, claims)
		}
		for name, text := range map[string]string{"bodyHash": body, "qsh": "POST&/v1/tx&a=2&b=1"} {
			if sum := sha256.Sum256([]byte(text)); claims[name] != hex.EncodeToString(sum[:]) {
				t.Errorf("%s = %v, want the SHA-256 of %s", name, claims[name], text)
			}
		}
		list := claims["{x}"].([]any)
		if list[0].(map[string]any)["m"] != "POST" || list[2] != "{" {
			t.Errorf("{x} = %v", list)
		}
	})
}

// No caller chooses whom a JWT is for, nor how it is verified.
func TestFixedClaims(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		for _, name := range fixedClaims {
			c := config(map[string]any{"a": "b"}, "request_claims", map[string]any{name: "{header:X-Sub}"})
			plugintest.Problems(t, h, c, "request_claims."+name)
		}
		for _, name := range fixedHeaders {
			c := config(map[string]any{"a": "b"}, "request_headers", map[string]any{name: "{header:X-Key}"})
			plugintest.Problems(t, h, c, "request_headers."+name)
		}
		plugintest.Problems(t, h, config(map[string]any{"a": "b"}, "request_claims", map[string]any{"a": "{path}", "b": []any{"{verb}"}}), "request_claims.b[0] request_claims.a")
		plugintest.Problems(t, h, config(map[string]any{"a": "b"}, "parts", map[string]any{"a": "{b}", "b": "{a}"}), "parts.a")
	})
}

// The JWT goes into a header, the query or a cookie, with the word in front of it that is configured.
func TestPlaces(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		send := func(pairs ...any) *hosttest.Result {
			return h.Authenticate(config(map[string]any{"a": "b"}, append(pairs, "algorithm", "ES256")...), hosttest.GET("https://api.test/v1"))
		}
		for _, c := range []struct {
			place  string
			result *hosttest.Result
			read   func(*http.Request) string
			prefix string
		}{
			{"a header", send("key", "X-JWT", "prefix", "JWT"), func(r *http.Request) string { return r.Header.Get("X-JWT") }, "JWT "},
			{"without a word", send("prefix", ""), func(r *http.Request) string { return r.Header.Get("Authorization") }, ""},
			{"the query", send("in", "query", "key", "jwt"), func(r *http.Request) string { return r.URL.Query().Get("jwt") }, ""},
			{"a cookie", send("in", "cookie", "key", "jwt"), func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Cookie"), "jwt=") }, ""},
		} {
			token, found := strings.CutPrefix(c.read(c.result.Request), c.prefix)
			if _, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{}); err != nil || !found {
				t.Errorf("%s: %s, want %sJWT", c.place, c.read(c.result.Request), c.prefix)
			}
		}
		plugintest.Problems(t, h, config(map[string]any{"a": "b"}, "in", "query"), "key")
	})
}

// The secret of an HMAC is decoded as it is written: Ghost hands it out in hex (docs.ghost.org/admin-api).
func TestKeyEncoding(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		secret := strings.Repeat("0f", 32)
		h.Secret("key", secret)
		c := config(map[string]any{"aud": "/admin/"}, "algorithm", "HS256", "key_encoding", "hex", "prefix", "Ghost")
		token, _ := strings.CutPrefix(h.Authenticate(c, hosttest.GET("https://api.test/v1")).Header("Authorization"), "Ghost ")
		key, _ := hex.DecodeString(secret)
		if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
			t.Errorf("err = %v, want a signature with the decoded secret", err)
		}
		h.Secret("key", "not hex")
		plugintest.Refuses(t, h, c, hosttest.GET("https://api.test/v1"), "", "private_key: is not in hex, as key_encoding says")
		plugintest.Problems(t, h, config(map[string]any{"a": "b"}, "key_encoding", "hex"), "key_encoding")
	})
}
