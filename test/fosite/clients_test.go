package fosite

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/test/fosite/server"
)

// The server accepts the client's secret in the header and in the form. It decodes Basic credentials as RFC 6749 section
// 2.3.1 wants, so characters that have a meaning there must be encoded.
func TestClientSecrets(t *testing.T) {
	const id = "crm:%2B+ 1"
	for _, secret := range []string{canary, canary + `:%+ &=/"~%2B`} {
		for _, way := range []string{"client_secret_basic", "client_secret_post"} {
			t.Run(way, func(t *testing.T) {
				s := newSetup(t)
				s.server.RegisterClient(t, id, secret, "read")
				s.secrets["crm"] = secret
				config := clientCredentials(s)
				config["client_id"], config["client_auth"] = id, way
				if caller := s.call(t, s.client(t, "oauth_client_credentials", config)); caller.ClientID != id || !slices.Equal(caller.Scopes, []string{"read"}) {
					t.Errorf("the API was called by %+v", caller)
				}
			})
		}
	}
}

// The server accepts an assertion that the client signs, each once. It does not know EdDSA.
func TestPrivateKeyJWT(t *testing.T) {
	rsaKey := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	for algorithm, key := range map[string]crypto.Signer{
		"RS256": rsaKey, "PS256": rsaKey, "ES256": newECKey(t, elliptic.P256()), "ES512": newECKey(t, elliptic.P521()),
	} {
		t.Run(algorithm, func(t *testing.T) {
			s := newSetup(t)
			s.server.RegisterKeyClient("crm", kid, algorithm, key.Public())
			der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
			s.secrets["key"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
			config := map[string]any{
				"client_id": "crm", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": algorithm,
				"jwt_headers": map[string]any{"kid": kid}, "token_url": s.server.TokenURL,
			}
			for range 2 { // each host asks for a token of its own
				if caller := s.call(t, s.client(t, "oauth_client_credentials", config)); caller.ClientID != "crm" {
					t.Errorf("the API was called by %+v", caller)
				}
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		s := newSetup(t)
		s.server.RegisterKeyClient("crm", kid, "ES256", newECKey(t, elliptic.P256()).Public())
		s.register(t, newECKey(t, elliptic.P256()))
		s.checkRefused(t, s.client(t, "oauth_client_credentials", map[string]any{
			"client_id": "crm", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256",
			"jwt_headers": map[string]any{"kid": kid}, "token_url": s.server.TokenURL,
		}), http.StatusUnauthorized, "invalid_client")
	})
}

// The token is for the audience that was asked for.
func TestAudience(t *testing.T) {
	for _, want := range [][]string{server.Audiences[:1], nil} {
		s := newSetup(t)
		s.server.RegisterClient(t, "crm", canary, "read")
		s.secrets["crm"] = canary
		config := clientCredentials(s)
		if want != nil {
			config["audience"] = want[0]
		}
		if caller := s.call(t, s.client(t, "oauth_client_credentials", config)); !slices.Equal(caller.Audience, want) {
			t.Errorf("the token's audience is %q, want %q", caller.Audience, want)
		}
	}
}

// The password grant needs the user's password, and the client's secret.
func TestPassword(t *testing.T) {
	wasm, err := os.ReadFile("../../plugins/oauthpassword/oauthpassword.wasm")
	if err != nil {
		t.Fatalf("the plugin is not compiled (make plugins): %v", err)
	}
	start := func(t *testing.T, password string) (*setup, *http.Client) {
		s := newSetup(t)
		s.plugins = []host.Plugin{{Name: "oauthpassword.wasm", Wasm: wasm}}
		s.server.RegisterClient(t, "crm", canary, "read")
		s.server.RegisterUser("ada", password)
		s.secrets["crm"], s.secrets["password"] = canary, "p%a+s s/w=&é-"+canary
		return s, s.client(t, "oauth_password", map[string]any{
			"username": "ada", "password": "{{ get_secret('password') }}", "client_id": "crm", "client_auth": "client_secret_basic",
			"client_secret": "{{ get_secret('crm') }}", "scope": "read", "token_url": s.server.TokenURL,
		})
	}
	t.Run("accepted", func(t *testing.T) {
		s, client := start(t, "p%a+s s/w=&é-"+canary)
		if caller := s.call(t, client); caller.ClientID != "crm" || !slices.Equal(caller.Scopes, []string{"read"}) {
			t.Errorf("the API was called by %+v", caller)
		}
	})
	t.Run("refused", func(t *testing.T) {
		s, client := start(t, "another password")
		s.checkRefused(t, client, http.StatusBadRequest, "invalid_grant")
	})
}
