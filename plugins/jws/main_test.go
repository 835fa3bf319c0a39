package main

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

var run = plugintest.Of(plugin{}, "jws.wasm")

// config returns a configuration that signs the body with RS256. Further fields are pairs of name and value.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"private_key": "{{ get_secret('key') }}", "key": "X-JWS-Signature"}, pairs...)
}

// wantJWS checks that a header has a JWS of a payload, without it, and returns the JOSE header.
func wantJWS(t *testing.T, value, algorithm, payload string, key any) (header string) {
	t.Helper()
	parts := strings.Split(value, ".")
	if len(parts) != 3 || parts[1] != "" {
		t.Fatalf("JWS = %s, want two parts with two dots between them", value)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil {
		err = jwt.GetSigningMethod(algorithm).Verify(parts[0]+"."+payload, signature, key)
	}
	if err != nil {
		t.Errorf("err = %v, want a signature that verifies", err)
	}
	decoded, _ := base64.RawURLEncoding.DecodeString(parts[0])
	return string(decoded)
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

const body = `{"amount":"12.00","currency":"GBP"}`

// Each algorithm signs the body, which the API gets as it was.
func TestAlgorithms(t *testing.T) {
	for _, algorithm := range []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"} {
		run.Case(t, algorithm, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", algorithm)
			got := h.Authenticate(config("algorithm", algorithm), hosttest.POST("https://api.test/pay", body))
			if header := wantJWS(t, got.Header("X-JWS-Signature"), algorithm, encoded(body), key); header != `{"alg":"`+algorithm+`"}` {
				t.Errorf("header = %s", header)
			}
			if read, err := io.ReadAll(got.Request.Body); err != nil || string(read) != body {
				t.Errorf("body = %s, err = %v", read, err)
			}
		})
	}
}

// Products that ask for a detached JWS get the header and the payload of their documentation.
func TestProducts(t *testing.T) {
	for _, test := range []struct {
		name      string
		algorithm string
		fields    []any
		header    string
		payload   string
	}{
		{ // docs.truelayer.com/docs/sign-your-requests
			"TrueLayer", "ES512",
			[]any{
				"jwt_headers",
				map[string]any{"kid": "k1", "tl_version": "2", "tl_headers": "Idempotency-Key"},
				"payload", `{method} {path}\nIdempotency-Key: {header:Idempotency-Key}\n{body}`, "key", "X-JWS-Signature",
			},
			`{"alg":"ES512","kid":"k1","tl_headers":"Idempotency-Key","tl_version":"2"}`, encoded("POST /v3/pay\nIdempotency-Key: i-1\n" + body),
		},
		{ // developer.revolut.com/docs/guides/build-banking-apps/tutorials/work-with-json-web-signatures
			"Revolut", "PS256",
			[]any{
				"jwt_headers", map[string]any{"kid": "k1", "typ": "JOSE", "http://openbanking.org.uk/tan": "acme.test"}, "crit", "http://openbanking.org.uk/tan",
			},
			`{"alg":"PS256","crit":["http://openbanking.org.uk/tan"],"http://openbanking.org.uk/tan":"acme.test","kid":"k1","typ":"JOSE"}`, encoded(body),
		},
		{ // docs.ebanx.com: the body as it is
			"EBANX", "RS256", []any{"b64", false, "jwt_headers", map[string]any{"kid": "k1"}}, `{"alg":"RS256","b64":false,"crit":["b64"],"kid":"k1"}`, body,
		},
		{ // Open Banking UK, Read/Write Data API profile 3.1.3
			"Open Banking", "PS256",
			[]any{
				"jwt_headers", map[string]any{"http://openbanking.org.uk/iat": "{timestamp}", "http://openbanking.org.uk/iss": "acme"}, "crit", "http://openbanking.org.uk/iat  http://openbanking.org.uk/iss",
			},
			`{"alg":"PS256","crit":["http://openbanking.org.uk/iat","http://openbanking.org.uk/iss"],"http://openbanking.org.uk/iat":1767323045,"http://openbanking.org.uk/iss":"acme"}`, encoded(body),
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", test.algorithm)
			r := hosttest.POST("https://api.test/v3/pay?a=b", body)
			r.Header.Set("Idempotency-Key", "i-1")
			got := h.Authenticate(config(append(test.fields, "algorithm", test.algorithm)...), r)
			if header := wantJWS(t, got.Header("X-JWS-Signature"), test.algorithm, test.payload, key); header != test.header {
				t.Errorf("header = %s, want %s", header, test.header)
			}
		})
	}
}

// A JWS may have its payload and a prefix, and a secret may be part of what is signed or stand in the header.
func TestAttachedAndSecrets(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "RS256")
		got := h.Authenticate(config("detached", false, "payload", "{method} {path}", "prefix", "JWS", "key", "Authorization"), hosttest.GET("https://api.test/a"))
		text, found := strings.CutPrefix(got.Header("Authorization"), "JWS ")
		parts := strings.Split(text, ".")
		if !found || len(parts) != 3 || parts[1] != encoded("GET /a") {
			t.Fatalf("Authorization = %s", got.Header("Authorization"))
		}
		wantJWS(t, parts[0]+".."+parts[2], "RS256", parts[1], key)
		id := h.Canary("id")
		got = h.Authenticate(config("payload", "{{ get_secret('id') }}{body}", "jwt_headers", map[string]any{"kid": "{{ get_secret('id') }}"}), hosttest.POST("https://api.test/", body))
		if header := wantJWS(t, got.Header("X-JWS-Signature"), "RS256", encoded(id+body), key); header != `{"alg":"RS256","kid":"`+id+`"}` {
			t.Errorf("header = %s", header)
		}
	})
}

// An explanation shows the header and what is signed, without the secret and the signature.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.Canary("id")
		e := h.Explain(config("payload", "{{ get_secret('id') }} {body}", "jwt_headers", map[string]any{"kid": "k1"}), hosttest.POST("https://api.test/", body))
		const masked = `<jws {"alg":"RS256","kid":"k1"}.{{ get_secret('id') }} <body>>`
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != masked || len(e.Steps) != 1 || e.Steps[0].Signed != "{{ get_secret('id') }} <body>" || e.Steps[0].By != "jws_sign RS256" {
			t.Errorf("added %+v, steps %+v", e.Added, e.Steps)
		}
	})
}

// A literal that cannot be right is refused when the configuration is loaded.
func TestProblems(t *testing.T) {
	headers := func(name string, value any) []any { return []any{"jwt_headers", map[string]any{name: value}} }
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		for _, test := range []struct {
			want   string
			fields []any
		}{
			{"algorithm: none of", []any{"algorithm", "HS256"}},
			{"key: only the HTTP client", []any{"key", "Host"}},
			{"key: is missing", []any{"key", nil}},
			{"jwt_headers.ALG: is alg to readers", headers("ALG", "none")},
			{"jwt_headers.b64: is fixed by the host", headers("b64", false)},
			{"jwt_headers.typ: is neither JOSE nor", headers("typ", "JWT")},
			{"jwt_headers.Typ: is typ to readers", headers("Typ", "JOSE")},
			{"jwt_headers.cty: would make the JWS something else", headers("cty", "JWT")},
			{"jwt_headers.jwk: would make the JWS something else", headers("jwk", map[string]any{})},
			{"jwt_headers.a: has {verb}", headers("a", "{verb}")},
			{"payload: has {verb}", []any{"payload", "{verb}"}},
			{"crit: has tan, which is no member", []any{"crit", "b64 tan"}},
			{"detached: is false", []any{"detached", false}},
			{"detached: is false", []any{"detached", false, "payload", "{method}", "b64", false}},
		} {
			plugintest.Problem(t, h, config(test.fields...), test.want)
		}
	})
}

// What only a request shows to be wrong is an error of that request, and nothing is sent.
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.As(host.User{ID: "JWT"})
		h.Canary("id")
		for _, test := range []struct {
			stage  host.Stage
			text   string
			fields []any
		}{
			{host.StageSign, "no member of the header", []any{"crit", "{{ user.id }}"}},
			{host.StagePlugin, "only plain text", []any{"detached", false, "payload", "{{ user.id }}{{ get_secret('id') }}"}},
			{host.StagePlugin, "payload has {verb}", []any{"payload", "{verb} {{ user.id }}"}},
		} {
			plugintest.Refuses(t, h, config(test.fields...), hosttest.POST("https://api.test/", body), test.stage, test.text)
		}
	})
}

// A JWS signs a megabyte at most, in base64url where the payload is encoded.
func TestLongBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "EdDSA")
		long := strings.Repeat("a", 1<<20)
		for _, b64 := range []bool{true, false} {
			c := config("algorithm", "EdDSA", "b64", b64)
			plugintest.Refuses(t, h, c, hosttest.POST("https://api.test/", long), host.StageSign, "sign a digest of the body")
			h.Authenticate(c, hosttest.POST("https://api.test/", long[:700_000]))
		}
	})
}

// An answer of 401 goes to the caller, and the request is not repeated: another signature would be refused as well.
func TestUnauthorized(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.API(hosttest.JSON(http.StatusUnauthorized, `{}`))
		plugintest.Answers(t, h, config(), hosttest.POST("https://api.test/", body), http.StatusUnauthorized, 1)
	})
}
