package oidcprovider

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// A body of a caller with its detached JWS is no client assertion for the provider, whatever the caller sends (threats.md 427).
func TestClaimsAsBodies(t *testing.T) {
	secrets := host.MapSecrets{}
	public := key(t, secrets, "trusted")
	key(t, secrets, "own")
	w := newProvider(t, []object{{"client_id": "crm", "jwks": object{"keys": []object{public}}, "token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "ES256"}})
	w.secrets = secrets
	status := func(token string) int {
		return w.ask(http.MethodPost, "/token", url.Values{
			"grant_type": {"client_credentials"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
		}, &object{})
	}
	for name, shape := range map[string]object{
		"crit": {"jwt_headers": object{"kid": "k1", "typ": "JOSE", "http://openbanking.org.uk/tan": "acme.test"}, "crit": "http://openbanking.org.uk/tan"},
		"b64":  {"jwt_headers": object{"kid": "k1"}, "b64": false},
		"text": {"jwt_headers": object{"kid": "k1"}, "payload": "{method} {path}\n{body}"},
		"body": {"jwt_headers": object{"kid": "k1"}},
	} {
		shape["private_key"], shape["algorithm"], shape["key"] = "{{ get_secret('own') }}", "ES256", "X-Jws-Signature"
		sign := w.signer("jws", shape)
		for _, body := range testworld.ClaimsAsBodies("crm", w.issuer) {
			for _, token := range testworld.JWTOf(sign(body).Get("X-Jws-Signature"), body) {
				if got := status(token); got == http.StatusOK {
					t.Errorf("%s: %s with %s is accepted", name, body, token)
				}
			}
		}
	}
	config := object{
		"private_key": "{{ get_secret('trusted') }}", "algorithm": "ES256", "jwt_headers": object{"kid": "k1"},
		"claims": object{"iss": "crm", "sub": "crm", "aud": w.issuer, "exp": "{{ now(60) }}", "jti": "{{ uuid() }}"},
	}
	if got := status(strings.TrimPrefix(w.signer("jwt", config)("").Get("Authorization"), "Bearer ")); got != http.StatusOK {
		t.Errorf("the assertion of the client: %d, want 200", got)
	}
}

// signer returns a function that returns the headers of a request with a body, once a connector has authenticated it.
func (w *provider) signer(authType string, config object) func(body string) http.Header {
	w.t.Helper()
	h := testworld.Must(host.New(w.t.Context(), host.Config{Secrets: w.secrets, BuiltIns: []host.Plugin{{Name: authType, Wasm: plugins.Of(authType)}}}))(w.t)
	w.t.Cleanup(func() { testworld.Check(w.t, h.Close(context.Background())) })
	c := testworld.Must(h.NewConnector(w.t.Context(), host.ConnectorConfig{Name: "bank", Origins: []string{"https://bank.test"}, Auth: []host.Auth{{Type: authType, Config: config}}}))(w.t)
	return func(body string) http.Header {
		r := testworld.Must(http.NewRequestWithContext(w.t.Context(), http.MethodPost, "https://bank.test/payments", strings.NewReader(body)))(w.t)
		return testworld.Must(c.Authenticate(r))(w.t).Header
	}
}
