package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
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

// The client authenticates as client_auth says, and in no other way. Without client_auth, the request is the same as before
// that field existed (specification.md 3.27).
func TestClientAuth(t *testing.T) {
	const id, secret = "my:id", "p%a+s s/w=&~é"
	for _, test := range []struct {
		name         string
		config       hosttest.Config
		body, header string
	}{
		{"by default", config("scope", "a b"), "grant_type=client_credentials&client_id=me&client_secret=" + url.QueryEscape(secret) + "&scope=a+b", ""},
		{"post", config("client_id", id, "client_auth", "client_secret_post"), "grant_type=client_credentials&client_id=my%3Aid&client_secret=" + url.QueryEscape(secret), ""},
		{
			"basic", config("client_id", id, "client_auth", "client_secret_basic", "scope", "a"), "grant_type=client_credentials&scope=a",
			"Basic " + base64.StdEncoding.EncodeToString([]byte("my%3Aid:p%25a%2Bs+s%2Fw%3D%26~%C3%A9")),
		},
		{"tls", hosttest.Config{"client_id": "me", "client_auth": "tls_client_auth", "token_url": endpoint}, "grant_type=client_credentials&client_id=me", ""},
		{"from a template", config("client_auth", "{{ get_variable('way') }}"), "grant_type=client_credentials&client_id=me", ""},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", secret)
			h.Variable("way", "tls_client_auth")
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
			h.Authenticate(test.config, get())
			if got := h.Exchanges()[0]; got.Body != test.body || got.Header.Get("Authorization") != test.header || got.Method != http.MethodPost {
				t.Errorf("%s %s\nAuthorization: %s\nwant %s\nAuthorization: %s", got.Method, got.Body, got.Header.Get("Authorization"), test.body, test.header)
			}
		})
	}
}

// The credentials of Basic are form-encoded before, as in the examples of RFC 6749 section 2.3.1 and appendix B.
func TestBasicOfTheStandard(t *testing.T) {
	for _, test := range []struct{ id, secret, want string }{
		{"s6BhdRkqt3", "gX1fBat3bV", "s6BhdRkqt3:gX1fBat3bV"},
		{" %&+£€", "7Fjfp0ZBr1KtDRbnfVdmIw", "+%25%26%2B%C2%A3%E2%82%AC:7Fjfp0ZBr1KtDRbnfVdmIw"},
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", test.secret)
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
			h.Authenticate(config("client_id", test.id, "client_auth", "client_secret_basic"), get())
			got, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(h.Exchanges()[0].Header.Get("Authorization"), "Basic "))
			if string(got) != test.want {
				t.Errorf("the credentials are %s, want %s", got, test.want)
			}
		})
	}
}

// assertionConfig returns a configuration with private_key_jwt.
func assertionConfig(pairs ...any) hosttest.Config {
	c := config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}", "algorithm", "ES256")
	delete(c, "client_secret")
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
}

// assertionOf returns the header and the claims of the last client assertion.
func assertionOf(h *hosttest.Harness) (header, claims map[string]any) {
	exchanges := h.Exchanges()
	return h.JWT(exchanges[len(exchanges)-1].Form.Get("client_assertion"))
}

// With private_key_jwt, a new assertion goes with each token request (RFC 7523 sections 2.2 and 3), and no secret
// (specification.md 3.28).
func TestPrivateKeyJWT(t *testing.T) {
	for _, algorithm := range sdk.Algorithms() {
		run.Case(t, algorithm, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", algorithm)
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
			ids := map[any]bool{}
			for range 2 {
				h.Authenticate(assertionConfig("algorithm", algorithm, "jwt_headers", map[string]any{"kid": "k1"}), get())
				exchanges := h.Exchanges()
				last := exchanges[len(exchanges)-1]
				assertion := last.Form.Get("client_assertion")
				want := "grant_type=client_credentials&client_id=me&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion="
				if last.Body != want+assertion {
					t.Errorf("the request is %s", last.Body)
				}
				_, err := jwt.Parse(assertion, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{algorithm}), jwt.WithTimeFunc(h.Now))
				if err != nil {
					t.Error(err)
				}
				header, claims := assertionOf(h)
				if !maps.Equal(header, map[string]any{"alg": algorithm, "typ": "JWT", "kid": "k1"}) {
					t.Errorf("the header is %v", header)
				}
				ids[claims["jti"]] = true
				delete(claims, "jti")
				now := h.Now().Unix()
				if !maps.Equal(claims, map[string]any{
					"iss": "me", "sub": "me", "aud": endpoint, "iat": json.Number(fmt.Sprint(now)), "exp": json.Number(fmt.Sprint(now + 180)),
				}) {
					t.Errorf("the claims are %v", claims)
				}
				h.Advance(5 * time.Minute)
			}
			if len(ids) != 2 {
				t.Errorf("the jti are %v, want two", ids)
			}
		})
	}
}

// The certificate's thumbprint goes into the header x5t#S256 (RFC 7515 section 4.1.8), and the audience can be another.
func TestCertificateAndAudienceOfTheAssertion(t *testing.T) {
	certificate, der := newCertificate(t)
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.Secret("certificate", certificate)
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		for _, text := range []string{certificate, "{{ get_secret('certificate') }}", strings.ReplaceAll(certificate, "\n", `\n`)} {
			h.Authenticate(assertionConfig("certificate", text, "client_assertion_audience", "https://login.test/", "jwt_headers", map[string]any{"kid": "k"}), get())
			sum := sha256.Sum256(der)
			header, claims := assertionOf(h)
			if header["x5t#S256"] != base64.RawURLEncoding.EncodeToString(sum[:]) || header["kid"] != "k" || claims["aud"] != "https://login.test/" {
				t.Errorf("the header is %v, the claims are %v", header, claims)
			}
		}
		for want, text := range map[string]string{"certificate has no certificate in PEM": "a certificate"} {
			plugintest.Refuses(t, h, assertionConfig("certificate", text), get(), host.StageSign, want)
		}
	})
}

func newCertificate(t *testing.T) (text string, der []byte) {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der = testworld.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), der
}

// audience, resource and parameters follow what was sent before they existed, each as often as it has values
// (specification.md 3.29).
func TestFurtherParameters(t *testing.T) {
	for name, test := range map[string]struct {
		config hosttest.Config
		want   string
	}{
		"audience":      {config("audience", "https://api.test/a"), "&audience=https%3A%2F%2Fapi.test%2Fa"},
		"two audiences": {config("audience", "a b", "scope", "s"), "&scope=s&audience=a&audience=b"},
		"several lines": {config("scope", "a\n  b\r\n", "resource", "urn:a\n\turn:b\n"), "&scope=a+b&resource=urn%3Aa&resource=urn%3Ab"},
		"white space":   {config("scope", " \n", "resource", "\t"), ""},
		"resource":      {config("resource", "https://api.test/1"), "&resource=https%3A%2F%2Fapi.test%2F1"},
		"two resources": {config("resource", " urn:a  urn:b ", "scope", "s"), "&scope=s&resource=urn%3Aa&resource=urn%3Ab"},
		"empty":         {config("audience", "", "resource", "{{ user.id | default('') }}", "parameters", map[string]any{}), ""},
		"parameters": {
			config("parameters", map[string]any{"a": "{{ user.email | default('x y') }}", "b": []any{"1", 2, "{{ 1 + 2 }}"}, "c": true, "d": "", "e": 1.5}),
			"&a=x+y&b=1&b=2&b=3&c=true&d=&e=1.5",
		},
		"a secret parameter": {config("parameters", map[string]any{"organization": "o-{{ get_secret('crm') }}"}), "&organization=o-the+secret+of+crm"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "the secret of crm")
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
			h.Authenticate(test.config, get())
			if got := h.Exchanges()[0].Body; got != "grant_type=client_credentials&client_id=me&client_secret=the+secret+of+crm"+test.want {
				t.Errorf("the request is %s", got)
			}
		})
	}
}

// A configuration that could not be sent is refused when it is loaded, with what to do
// (specification.md "names of further parameters").
func TestProblemsOfTheClient(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		without := func(name string, pairs ...any) hosttest.Config {
			c := config(pairs...)
			delete(c, name)
			return c
		}
		for want, c := range map[string]hosttest.Config{
			"client_secret: is missing, and client_auth is client_secret_post: OAuth client secret":                                   without("client_secret"),
			"client_secret: is missing, and client_auth is client_secret_basic: OAuth client secret":                                  without("client_secret", "client_auth", "client_secret_basic"),
			"private_key: is missing, and client_auth is private_key_jwt: Key that signs assertions, in PEM, or the HMAC secret":      without("client_secret", "client_auth", "private_key_jwt"),
			"client_secret: has no effect unless client_auth is client_secret_post or client_secret_basic: remove it, or change that": assertionConfig("client_secret", "{{ get_secret('crm') }}"),
			"private_key: has no effect unless client_auth is private_key_jwt: remove it, or change that":                             config("private_key", "{{ get_secret('key') }}"),
			"algorithm: has no effect unless client_auth is private_key_jwt: remove it, or change that":                               config("algorithm", "RS256"),
			"jwt_headers: has no effect unless client_auth is private_key_jwt: remove it, or change that":                             config("jwt_headers", map[string]any{"kid": "k"}),
			"certificate: has no effect unless client_auth is private_key_jwt: remove it, or change that":                             config("certificate", "c"),
			"client_assertion_audience: has no effect unless client_auth is private_key_jwt: remove it, or change that":               config("client_assertion_audience", "a"),
			"client_auth: is none of client_secret_post, client_secret_basic, private_key_jwt, assertion, tls_client_auth":            config("client_auth", "none"),
			"parameters.scope: is set by the type or by another field, remove it":                                                     config("parameters", map[string]any{"scope": "a"}),
			"parameters.grant_type: is set by the type or by another field, remove it":                                                config("parameters", map[string]any{"grant_type": "a"}),
			"parameters: cannot be sent: a is no text, number, true or false, nor a list of these":                                    config("parameters", map[string]any{"a": map[string]any{}}),
			"parameters: cannot be sent: b is no text, number, true or false, nor a list of these":                                    config("parameters", map[string]any{"b": []any{nil}}),
			"jwt_headers.alg: is fixed by the host, remove it":                                                                        assertionConfig("jwt_headers", map[string]any{"alg": "none"}),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}

// What only a request shows is an error of that request, which is not sent.
func TestIncompleteClient(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "the secret of crm")
		h.Variable("way", "private_key_jwt")
		h.Variable("post", "client_secret_post")
		h.Key("key", "ES256")
		secretless := config("client_auth", "{{ get_variable('post') }}")
		delete(secretless, "client_secret")
		for want, c := range map[string]hosttest.Config{
			"private_key is not set":   config("client_auth", "{{ get_variable('way') }}"),
			"client_secret is missing": secretless,
			"jwt_headers":              assertionConfig("jwt_headers", map[string]any{"kid": "{{ user.id }}"}),
		} {
			plugintest.Refuses(t, h, c, get(), "", want)
		}
		plugintest.Exchanges(t, h, 0)
	})
}

// An explanation shows the token request with masks, in each way to authenticate.
func TestExplainTheClient(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.Key("key", "ES256")
		for _, c := range []hosttest.Config{config("client_auth", "client_secret_basic"), assertionConfig()} {
			e := h.Explain(c, get())
			var steps bytes.Buffer
			for _, step := range e.Steps {
				fmt.Fprintf(&steps, "%+v", step.Exchange)
			}
			if !strings.Contains(steps.String(), "get_secret('crm')") && !strings.Contains(steps.String(), `"iss":"me"`) {
				t.Errorf("the explanation is %s", steps.String())
			}
		}
	})
}

// The client's own assertion follows the clock of the token endpoint, and has the lifetime assertion_ttl.
func TestClockOfTheClientsAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`), 5*time.Minute), hosttest.Token("the-access-token", 3600))
		h.Authenticate(assertionConfig("assertion_ttl", 60), get())
		for i, lead := range []int64{0, 300} {
			_, claims := h.JWT(h.Exchanges()[i].Form.Get("client_assertion"))
			moment := h.Now().Unix() + lead
			if claims["iat"] != json.Number(fmt.Sprint(moment)) || claims["exp"] != json.Number(fmt.Sprint(moment+60)) {
				t.Errorf("assertion %d: %v", i, claims)
			}
		}
	})
}
