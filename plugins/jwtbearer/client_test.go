package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

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
			problems := h.Problems(c)
			if len(problems) != 1 || problems[0].Path+": "+problems[0].Message != "auth.config."+want {
				t.Errorf("the problems are %v, want %s", problems, want)
			}
		}
	})
}
