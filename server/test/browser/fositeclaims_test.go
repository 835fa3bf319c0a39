package browser

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v3"
	"github.com/go-jose/go-jose/v3/jwt"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// A body of a caller with its detached JWS is no token, no assertion and no client assertion, neither for the server nor for go-jose, whatever
// the caller sends (threats.md 427).
func TestClaimsAsBodies(t *testing.T) {
	s := newSetup(t)
	trusted := newECKey(t, elliptic.P256())
	s.register(t, trusted)
	s.server.RegisterKeyClient("crm", kid, "ES256", trusted.Public())
	s.secrets["trusted"] = s.secrets["key"]
	own := newSetup(t)
	own.register(t, newECKey(t, elliptic.P256()))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.server.Roots}}}
	defer client.CloseIdleConnections()
	accepted := func(token string) bool {
		for _, form := range []url.Values{
			{"grant_type": {"client_credentials"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token}},
			{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {token}},
		} {
			response := testworld.Must(client.PostForm(s.server.TokenURL, form))(t)
			testworld.Check(t, response.Body.Close())
			if response.StatusCode == http.StatusOK {
				return true
			}
		}
		return joseAccepts(token, trusted.Public())
	}
	for name, shape := range map[string]map[string]any{
		"crit": {"jwt_headers": map[string]any{"kid": kid, "typ": "JOSE", "http://openbanking.org.uk/tan": "acme.test"}, "crit": "http://openbanking.org.uk/tan"},
		"b64":  {"jwt_headers": map[string]any{"kid": kid}, "b64": false},
		"text": {"jwt_headers": map[string]any{"kid": kid}, "payload": "{method} {path}\n{body}"},
		"body": {"jwt_headers": map[string]any{"kid": kid}},
	} {
		t.Run(name, func(t *testing.T) {
			shape["private_key"], shape["algorithm"], shape["key"] = "{{ get_secret('key') }}", "ES256", "X-Jws-Signature"
			sign := own.signer(t, "jws", shape)
			for _, body := range testworld.ClaimsAsBodies("crm", s.server.TokenURL) {
				for _, token := range testworld.JWTOf(sign(body).Get("X-Jws-Signature"), body) {
					if accepted(token) {
						t.Errorf("%s with %s is accepted", body, token)
					}
				}
			}
		})
	}
	config := map[string]any{
		"private_key": "{{ get_secret('trusted') }}", "algorithm": "ES256", "jwt_headers": map[string]any{"kid": kid},
		"claims": map[string]any{"iss": "crm", "sub": "crm", "aud": s.server.TokenURL, "exp": "{{ now(60) }}", "jti": "{{ uuid() }}"},
	}
	if token := strings.TrimPrefix(s.signer(t, "jwt", config)("").Get("Authorization"), "Bearer "); !accepted(token) || !joseAccepts(token, trusted.Public()) {
		t.Errorf("the assertion of the client is refused: %s", token)
	}
}

// joseAccepts reports whether go-jose takes a text for a JWT of a key.
func joseAccepts(token string, key crypto.PublicKey) bool {
	parsed, err := jwt.ParseSigned(token)
	return err == nil && parsed.Claims(jose.JSONWebKey{Key: key}, &map[string]any{}) == nil
}

// signer returns a function that returns the headers of a request with a body, once a connector has authenticated it.
func (s *setup) signer(t *testing.T, authType string, config map[string]any) func(body string) http.Header {
	t.Helper()
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: s.secrets, BuiltIns: []host.Plugin{{Name: authType, Wasm: plugins.Of(authType)}},
	}))(t)
	t.Cleanup(func() { testworld.Check(t, h.Close(context.WithoutCancel(t.Context()))) })
	c := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "bank", Origins: []string{"https://bank.test"}, Auth: []host.Auth{{Type: authType, Config: config}}}))(t)
	return func(body string) http.Header {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bank.test/payments", strings.NewReader(body)))(t)
		return testworld.Must(c.Authenticate(r))(t).Header
	}
}
