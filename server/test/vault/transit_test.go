package vault

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// keys returns a store that signs with keys of the engine at transit.
func (s *setup) keys() *secretstore.VaultStore {
	s.t.Helper()
	c := s.appRole()
	c.Transit = &secretstore.VaultTransit{}
	return s.store(c)
}

// create makes a key of the engine.
func (s *setup) create(name, kind string) {
	s.t.Helper()
	body := map[string]any{"type": kind, "exportable": kind == "hmac"}
	if kind == "hmac" {
		body["key_size"] = 32
	}
	s.Do("POST", "transit/keys/"+name, body)
}

// public returns what verifies signatures of a version of a key: the public half, or the secret of an HMAC.
func (s *setup) public(name string, version int) any {
	s.t.Helper()
	number := strconv.Itoa(version)
	about := s.Do("GET", "transit/keys/"+name, nil)
	if about["type"] == "hmac" {
		exported := s.Do("GET", "transit/export/hmac-key/"+name, nil)["keys"].(map[string]any)[number].(string)
		return testworld.Must(base64.StdEncoding.DecodeString(exported))(s.t)
	}
	text := about["keys"].(map[string]any)[number].(map[string]any)["public_key"].(string)
	der := []byte(text)
	if block, _ := pem.Decode(der); block != nil {
		der = block.Bytes
	} else {
		raw := testworld.Must(base64.StdEncoding.DecodeString(text))(s.t)
		return ed25519.PublicKey(raw)
	}
	return testworld.Must(x509.ParsePKIXPublicKey(der))(s.t)
}

// api is an API that keeps the token of the last request.
type api struct{ token string }

// connect connects a connector of type jwt to a new API.
func (s *setup) connect(keys host.Keys, algorithm, key string) (*host.Connector, *api) {
	s.t.Helper()
	a := &api{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}))
	s.t.Cleanup(server.Close)
	h := testworld.Must(host.New(s.t.Context(), host.Config{Keys: keys, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}))(s.t)
	s.t.Cleanup(func() { _ = h.Close(s.t.Context()) })
	connector := testworld.Must(h.NewConnector(s.t.Context(), host.ConnectorConfig{Name: "api", Origins: []string{server.URL}, Auth: []host.Auth{{
		Type: "jwt", Config: map[string]any{"algorithm": algorithm, "private_key": "{{ get_key(" + key + ") }}", "claims": map[string]any{"iss": "me", "exp": "{{ now(60) }}"}},
	}}}))(s.t)
	return connector, a
}

// send sends a request of a connector.
func (s *setup) send(c *host.Connector) error {
	s.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(s.t.Context(), http.MethodGet, c.Config().Origins[0], nil))(s.t)
	response, err := c.Transport(nil).RoundTrip(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}

// verify sends a request, and checks the signature of its token.
func (s *setup) verify(c *host.Connector, a *api, algorithm string, public any) {
	s.t.Helper()
	testworld.Check(s.t, s.send(c))
	if _, err := jwt.Parse(a.token, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{algorithm})); err != nil {
		s.t.Errorf("%s: err = %v", algorithm, err)
	}
}

// kinds has the kind of key for each algorithm.
var kinds = map[string]string{
	"RS256": "rsa-2048", "RS384": "rsa-3072", "RS512": "rsa-4096", "PS256": "rsa-2048", "PS384": "rsa-2048", "PS512": "rsa-2048",
	"ES256": "ecdsa-p256", "ES384": "ecdsa-p384", "ES512": "ecdsa-p521", "EdDSA": "ed25519", "HS256": "hmac", "HS384": "hmac", "HS512": "hmac",
}

func TestSignJWT(t *testing.T) {
	s := newSetup(t)
	keys := s.keys()
	for algorithm, kind := range kinds {
		t.Run(algorithm, func(t *testing.T) {
			s.t = t
			name := "app-" + kind
			s.create(name, kind)
			connector, a := s.connect(keys, algorithm, "'"+name+"'")
			testworld.Check(t, connector.CheckKeys(t.Context()))
			s.verify(connector, a, algorithm, s.public(name, 1))
			s.verify(connector, a, algorithm, s.public(name, 1))
		})
	}
}

func TestARotatedKey(t *testing.T) {
	s := newSetup(t)
	s.create("app-key", "ecdsa-p256")
	newest, token := s.connect(s.keys(), "ES256", "'app-key'")
	first, tokenOfFirst := s.connect(s.keys(), "ES256", "'app-key', 1")
	s.verify(newest, token, "ES256", s.public("app-key", 1))
	s.Do("POST", "transit/keys/app-key/rotate", nil)
	s.verify(newest, token, "ES256", s.public("app-key", 2))
	s.verify(first, tokenOfFirst, "ES256", s.public("app-key", 1))

	s.Do("POST", "transit/keys/app-key/config", map[string]any{"min_encryption_version": 2})
	s.failKey(first, "private_key: key \"app-key\", version 1: the key may not be used", "is below min_encryption_version, which is 2", false, host.ErrKeyRefused)
	third, _ := s.connect(s.keys(), "ES256", "'app-key', 3")
	s.failKey(third, "vault has no version 3 at transit/keys/app-key, the newest is 2", "", false, host.ErrKeyNotFound)
	s.Do("POST", "transit/keys/app-key/rotate", nil)
	if err := s.send(third); err != nil {
		t.Errorf("after another rotation: %v", err)
	}
}

// failKey sends a request that must fail at the stage sign. No error holds a secret of the server.
func (s *setup) failKey(c *host.Connector, words, more string, retryable bool, is error) {
	s.t.Helper()
	err := s.send(c)
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Stage != host.StageSign || failed.Retryable() != retryable || is != nil && !errors.Is(err, is) {
		s.t.Errorf("the error is %v", err)
		return
	}
	if !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), more) {
		s.t.Errorf("the error is %q, want %q and %q in it", err, words, more)
	}
	for _, hidden := range []string{s.Root, s.SecretID, s.ServiceAccountToken, "hvs."} {
		if strings.Contains(err.Error(), hidden) {
			s.t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func TestUnusableKeys(t *testing.T) {
	s := newSetup(t)
	for name, kind := range map[string]string{"app-ec": "ecdsa-p256", "app-aes": "aes256-gcm96", "other": "ecdsa-p256"} {
		s.create(name, kind)
	}
	s.Do("POST", "transit/keys/app-derived", map[string]any{"type": "ed25519", "derived": true})
	for _, tt := range []struct{ algorithm, key, words string }{
		{"RS256", "app-ec", `private_key: key "app-ec": the key for RS256 is of the type ecdsa-p256: an RSA key`},
		{"ES384", "app-ec", `the key for ES384 is of the type ecdsa-p256: an EC key on P-384 is needed`},
		{"ES256", "app-aes", `the key for ES256 is of the type aes256-gcm96`},
		{"EdDSA", "app-derived", `the key for EdDSA is of the type ed25519 (derived)`},
		{"ES256", "app-none", `the key is not found: vault has nothing at transit/keys/app-none`},
		{"ES256", "other", `the key may not be used: vault refuses transit/keys/other (403): the policy must allow read there`},
		{"HS256", "other", `the key may not be used: vault refuses transit/hmac/other (403): the policy must allow update there`},
		{"HS256", "app-none", `vault cannot use it at transit/hmac/app-none (400)`},
	} {
		connector, _ := s.connect(s.keys(), tt.algorithm, "'"+tt.key+"'")
		s.failKey(connector, tt.words, "", false, nil)
	}
	elsewhere := s.appRole()
	elsewhere.Transit = &secretstore.VaultTransit{Mount: "none"}
	connector, _ := s.connect(s.store(elsewhere), "ES256", "'app-ec'")
	s.failKey(connector, "vault has no engine at none/keys/app-ec", "", false, host.ErrKeyNotFound)

	connector, _ = s.connect(s.keys(), "ES256", "'app-ec'")
	testworld.Check(t, s.send(connector))
	s.Seal()
	s.failKey(connector, `private_key: key "app-ec": vault cannot use transit/sign/app-ec: it answered 503: it is sealed`, "", true, nil)
	s.Unseal()
	testworld.Check(t, s.send(connector))
	s.Do("POST", "transit/keys/app-ec/config", map[string]any{"deletion_allowed": true})
	s.Do("DELETE", "transit/keys/app-ec", nil)
	s.failKey(connector, "vault has nothing at transit/keys/app-ec", "", false, host.ErrKeyNotFound)
	s.failKey(connector, "vault has nothing at transit/keys/app-ec", "", false, host.ErrKeyNotFound)
}

// A MAC of the engine is that of its key, also with SHA-1 and with a key of another kind.
func TestMAC(t *testing.T) {
	s := newSetup(t)
	s.create("app-mac", "hmac")
	keys := s.keys()
	secret := s.public("app-mac", 1).([]byte)
	for algorithm, hash := range map[string]func() []byte{
		"HS1":   func() []byte { m := hmac.New(sha1.New, secret); m.Write([]byte("data")); return m.Sum(nil) },
		"HS256": func() []byte { m := hmac.New(sha256.New, secret); m.Write([]byte("data")); return m.Sum(nil) },
	} {
		got, version, err := keys.Sign(t.Context(), host.Key{Name: "app-mac"}, algorithm, []byte("data"))
		if err != nil || version != 1 || !hmac.Equal(got, hash()) {
			t.Errorf("%s: %x, version %d, %v", algorithm, got, version, err)
		}
	}
	s.create("app-aes", "aes256-gcm96")
	if got, _, err := keys.Sign(t.Context(), host.Key{Name: "app-aes"}, "HS256", []byte("data")); err != nil || len(got) != 32 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
