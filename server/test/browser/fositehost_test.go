package browser

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// An issuer of assertions, their subject, the ID of its key, and a secret.
const (
	reporting = "reporting"
	ada       = "ada@example.com"
	kid       = "2026-01"
	canary    = "canary-5vX0qk2TzW8r"
)

// setup is an authorization server with an API, and the configuration of a host.
type setup struct {
	server  *authServer
	secrets host.MapSecrets
	log     bytes.Buffer  // the host's log, at every level
	offset  time.Duration // the time by which the host's clock is ahead of the server's
	plugins []host.Plugin // beside the built-in ones
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	return &setup{server: newAuthServer(t), secrets: host.MapSecrets{}}
}

// client returns a client for a connector with an auth type and its configuration.
func (s *setup) client(t *testing.T, authType string, config map[string]any) *http.Client {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{
		Secrets: s.secrets,
		Egress:  host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: s.server.Roots}},
		Logger:  slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4})),
		Clock:   func() time.Time { return time.Now().Add(s.offset) },
		Plugins: s.plugins,
	})
	if err != nil {
		t.Fatalf("make the host: %v", err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	connector, err := h.NewConnector(t.Context(), host.ConnectorConfig{
		Name:    "reports",
		Origins: []string{strings.TrimSuffix(s.server.APIURL, "/api")},
		Auth:    []host.Auth{{Type: authType, Config: config}},
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return &http.Client{Transport: connector.Transport(nil)}
}

// call calls the API and returns the caller that the API identified. It requires status 200.
func (s *setup) call(t *testing.T, client *http.Client) authCaller {
	t.Helper()
	response, err := client.Get(s.server.APIURL)
	if err != nil {
		t.Fatalf("call the API: %v", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the API answered %d, want 200", response.StatusCode)
	}
	var caller authCaller
	if err := json.NewDecoder(response.Body).Decode(&caller); err != nil {
		t.Fatalf("the answer of the API is no JSON: %v", err)
	}
	return caller
}

// checkRefused calls the API and requires an error with the token endpoint's refusal, and no request to the API.
func (s *setup) checkRefused(t *testing.T, client *http.Client, status int, code string) {
	t.Helper()
	response, err := client.Get(s.server.APIURL)
	if err == nil {
		response.Body.Close()
		t.Fatalf("the API answered %d, want an error", response.StatusCode)
	}
	var failure *host.Error
	if !errors.As(err, &failure) || failure.Stage != host.StageToken || failure.Connector != "reports" {
		t.Errorf("got the error %v, want a host.Error of connector reports at stage token", err)
	}
	var answer *host.TokenError
	if !errors.As(err, &answer) || answer.Status != status || answer.Code != code {
		t.Errorf("got the error %v, want a host.TokenError with %d %s", err, status, code)
	}
	if got := s.server.Calls(); got != 0 {
		t.Errorf("%d requests reached the API, want none", got)
	}
	for name, secret := range s.secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(err.Error(), form) || strings.Contains(s.log.String(), form) {
				t.Errorf("the error or the log holds the secret %q", name)
			}
		}
	}
}

func clientCredentials(s *setup) map[string]any {
	return map[string]any{
		"client_id":     "crm",
		"client_secret": "{{ get_secret('crm') }}",
		"token_url":     s.server.TokenURL,
		"scope":         "read",
	}
}

func TestClientCredentials(t *testing.T) {
	s := newSetup(t)
	s.server.RegisterClient(t, "crm", canary, "read", "write")
	s.secrets["crm"] = canary
	client := s.client(t, "oauth_client_credentials", clientCredentials(s))

	for range 2 {
		caller := s.call(t, client)
		if caller.ClientID != "crm" || !slices.Equal(caller.Scopes, []string{"read"}) {
			t.Errorf("the API was called by %+v, want client crm with scope read", caller)
		}
	}
	want := []authExchange{{GrantType: "client_credentials", ClientID: "crm", Scope: "read", Status: http.StatusOK}}
	if got := s.server.Exchanges(); !slices.Equal(got, want) {
		t.Errorf("exchanges %+v, want %+v", got, want)
	}
}

func TestClientCredentialsRefused(t *testing.T) {
	t.Run("wrong secret", func(t *testing.T) {
		s := newSetup(t)
		s.server.RegisterClient(t, "crm", "another secret", "read")
		s.secrets["crm"] = canary
		client := s.client(t, "oauth_client_credentials", clientCredentials(s))
		s.checkRefused(t, client, http.StatusUnauthorized, "invalid_client")
	})
	t.Run("scope that the client may not have", func(t *testing.T) {
		s := newSetup(t)
		s.server.RegisterClient(t, "crm", canary, "write")
		s.secrets["crm"] = canary
		client := s.client(t, "oauth_client_credentials", clientCredentials(s))
		s.checkRefused(t, client, http.StatusBadRequest, "invalid_scope")
	})
}

// jwtBearer returns a configuration that the server accepts. It uses uuid() for the jti, which the server requires.
func jwtBearer(s *setup, algorithm string) map[string]any {
	return map[string]any{
		"client_id":         reporting,
		"private_key":       "{{ get_secret('key') }}",
		"token_url":         s.server.TokenURL,
		"subject":           "{{ user.email }}",
		"audience":          s.server.TokenURL,
		"algorithm":         algorithm,
		"additional_claims": map[string]any{"jti": "{{ uuid() }}"},
		"jwt_headers":       map[string]any{"kid": kid},
	}
}

// register registers a key with the server, and sets the secret "key" to its PEM text.
func (s *setup) register(t *testing.T, key crypto.Signer) {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	s.secrets["key"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	s.server.RegisterKey(reporting, ada, kid, key.Public())
}

// clientOf returns a client whose requests are made for a user.
func clientOf(client *http.Client, email string) *http.Client {
	return &http.Client{Transport: asUser{host.User{Email: email}, client.Transport}}
}

type asUser struct {
	user host.User
	base http.RoundTripper
}

func (a asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	return a.base.RoundTrip(r.WithContext(host.WithUser(r.Context(), a.user)))
}

func newECKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	return testworld.Must(ecdsa.GenerateKey(curve, rand.Reader))(t)
}

func TestJWTBearerWithEachAsymmetricAlgorithm(t *testing.T) {
	rsaKey := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	keys := map[string]crypto.Signer{
		"RS256": rsaKey, "RS384": rsaKey, "RS512": rsaKey,
		"PS256": rsaKey, "PS384": rsaKey, "PS512": rsaKey,
		"ES256": newECKey(t, elliptic.P256()),
		"ES384": newECKey(t, elliptic.P384()),
		"ES512": newECKey(t, elliptic.P521()),
		"EdDSA": edKey,
	}
	for _, algorithm := range slices.Sorted(maps.Keys(keys)) {
		t.Run(algorithm, func(t *testing.T) {
			s := newSetup(t)
			s.register(t, keys[algorithm])
			client := clientOf(s.client(t, "oauth_jwt_bearer", jwtBearer(s, algorithm)), ada)

			for range 2 {
				if caller := s.call(t, client); caller.Subject != ada {
					t.Errorf("the API was called for %q, want %q", caller.Subject, ada)
				}
			}
			want := []authExchange{{
				GrantType: "urn:ietf:params:oauth:grant-type:jwt-bearer", Algorithm: algorithm, Status: http.StatusOK,
			}}
			if got := s.server.Exchanges(); !slices.Equal(got, want) {
				t.Errorf("exchanges %+v, want %+v", got, want)
			}
		})
	}
}

// A second token is requested with a new jti. The server accepts each jti only once.
func TestJWTBearerAgainAfterTheCacheTime(t *testing.T) {
	s := newSetup(t)
	s.register(t, newECKey(t, elliptic.P256()))
	config := jwtBearer(s, "ES256")
	config["token_ttl"] = json.Number("90")
	client := clientOf(s.client(t, "oauth_jwt_bearer", config), ada)

	s.call(t, client)
	s.offset += 30 * time.Second // token_ttl − 60
	s.call(t, client)
	if got := s.server.Exchanges(); len(got) != 2 || got[1].Status != http.StatusOK {
		t.Errorf("exchanges %+v, want two that went well", got)
	}
}

func TestJWTBearerRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, s *setup, config map[string]any)
	}{
		{"wrong audience", func(_ *testing.T, _ *setup, config map[string]any) {
			config["audience"] = "https://login.example.com/token"
		}},
		{"unknown issuer", func(_ *testing.T, _ *setup, config map[string]any) {
			config["client_id"] = "somebody"
		}},
		{"unknown subject", func(_ *testing.T, _ *setup, config map[string]any) {
			config["subject"] = "eve@example.com"
		}},
		{"unknown kid", func(_ *testing.T, _ *setup, config map[string]any) {
			config["jwt_headers"] = map[string]any{"kid": "2025-12"}
		}},
		{"no jti", func(_ *testing.T, _ *setup, config map[string]any) {
			delete(config, "additional_claims")
		}},
		{"another key", func(t *testing.T, s *setup, _ map[string]any) {
			s.server.RegisterKey(reporting, ada, kid, newECKey(t, elliptic.P256()).Public())
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSetup(t)
			s.register(t, newECKey(t, elliptic.P256()))
			config := jwtBearer(s, "ES256")
			test.change(t, s, config)
			client := clientOf(s.client(t, "oauth_jwt_bearer", config), ada)
			s.checkRefused(t, client, http.StatusBadRequest, "invalid_grant")
		})
	}
}

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
	for _, want := range [][]string{authAudiences[:1], nil} {
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
	wasm, err := os.ReadFile("../../../plugins/oauthpassword/oauthpassword.wasm")
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
