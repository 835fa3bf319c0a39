package vault

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/identities"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// process is an identity, whose tokens the auth method jwt of a server accepts for the role gateway.
type process struct {
	key    *ecdsa.PrivateKey
	serial atomic.Int64
	// sub is the subject of the tokens.
	sub string
}

// newProcess configures the auth method jwt, as developer.hashicorp.com/vault/docs/auth/jwt says for keys that the operator writes down.
func newProcess(s *setup) *process {
	p := &process{key: testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(s.t), sub: "system:serviceaccount:default:gateway"}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: testworld.Must(x509.MarshalPKIXPublicKey(p.key.Public()))(s.t)})
	s.Do("POST", "sys/auth/jwt", map[string]any{"type": "jwt"})
	s.Do("POST", "auth/jwt/config", map[string]any{"jwt_validation_pubkeys": []string{string(public)}, "bound_issuer": "https://cluster.test"})
	s.Do("POST", "auth/jwt/role/gateway", map[string]any{
		"role_type": "jwt", "bound_audiences": []string{"vault"}, "user_claim": "sub", "bound_subject": "system:serviceaccount:default:gateway",
		"token_policies": "gateway", "token_ttl": "1h", "token_max_ttl": "24h",
	})
	return p
}

// fetch returns a token for an audience.
func (p *process) fetch(_ context.Context, audience string) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://cluster.test", "sub": p.sub, "aud": audience, "iat": time.Now().Unix(), "exp": time.Now().Add(10 * time.Minute).Unix(), "jti": fmt.Sprint(p.serial.Add(1)),
	}).SignedString(p.key)
}

// config returns a login with the identity of the process for an audience, which hosts may get.
func (p *process) config(hosts, audience string) secretstore.VaultConfig {
	all := identities.New(time.Now, identities.Identity{Name: "pod", For: []identities.Audience{
		{Audience: "vault", Hosts: []string{hosts}}, {Audience: "another", Hosts: []string{hosts}},
	}, Fetch: p.fetch})
	return secretstore.VaultConfig{Identities: all, JWT: &secretstore.VaultJWT{Role: "gateway", Identity: "pod", Audience: audience}}
}

// The token of the process logs in to Vault, and to no other server.
func TestLoginByIdentity(t *testing.T) {
	s := newSetup(t)
	p := newProcess(s)
	server := testworld.Must(url.Parse(s.URL))(t).Host
	s.Do("POST", "kv/data/apps/crm", map[string]any{"data": map[string]string{"value": canary}})
	s.want(s.store(p.config(server, "vault")), "crm")
	s.want(s.store(p.config("127.0.0.1", "vault")), "crm")
	s.wantError(s.store(p.config(server, "another")), "crm", "vault refuses the login at auth/jwt/login: it answered 400", false)
	p.sub = "system:serviceaccount:other:gateway"
	s.wantError(s.store(p.config(server, "vault")), "crm", "vault refuses the login at auth/jwt/login: it answered 400", false)

	for name, c := range map[string]secretstore.VaultConfig{
		"another host": p.config("vault.test", "vault"), "another port": p.config("127.0.0.1:1", "vault"), "no such audience": p.config(server, "sts"),
		"no identities": {JWT: &secretstore.VaultJWT{Role: "gateway", Identity: "pod", Audience: "vault"}},
	} {
		c.Address = s.URL
		_, err := secretstore.Vault(c)
		testworld.WantError(t, name, err, "jwt.identity: is no item of identities that has this audience for the host of address")
	}
}

// A store by a connector reads what the store of Vault reads, in a thousand reads.
func TestConnectorReadsAsVault(t *testing.T) {
	s := newSetup(t)
	own := s.store(s.appRole())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testworld.Must(os.ReadFile(s.File("ca.pem")))(t))
	h := testworld.Must(host.New(t.Context(), host.Config{
		BuiltIns: connectors.BuiltIns("api_key"), Egress: host.Egress{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, TLS: &tls.Config{RootCAs: pool}},
		Secrets: host.MapSecrets{"token": s.Root},
	}))(t)
	defer func() { _ = h.Close(context.Background()) }()
	c := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "vault", Origins: []string{s.URL}, Auth: host.Auths{{
		Type: "api_key", Config: map[string]any{"in": "header", "key": "X-Vault-Token", "value": "{{ get_secret('token') }}"},
	}}}))(t)
	store := secretstore.Connector(secretstore.ConnectorConfig{
		Service: secretstore.Service{URL: s.URL, Transport: c.Transport(nil), Timeout: 10 * time.Second},
		Read:    secretstore.Request{Path: "/v1/kv/data/apps/{name}", From: "json:/data/data/value", Missing: []string{"404"}},
	})
	values := []string{canary, "ü\n\"\\", strings.Repeat("x", 10_000), " ", "{{ get_secret('x') }}", `{"a":1}`}
	for i, value := range values {
		s.Do("POST", fmt.Sprintf("kv/data/apps/key-%d", i), map[string]any{"data": map[string]string{"value": value}})
	}
	s.Do("POST", "kv/data/apps/tenants/acme/key-0", map[string]any{"data": map[string]string{"value": "of acme"}})
	names := []string{"key-0", "key-1", "key-2", "key-3", "key-4", "key-5", "missing", "tenants/acme/key-0", "tenants/acme/missing"}
	for i := range 1000 {
		name := names[i%len(names)]
		want, wantErr := own.Secret(t.Context(), name)
		got, err := store.Secret(t.Context(), name)
		if got != want || errors.Is(err, host.ErrSecretNotFound) != errors.Is(wantErr, host.ErrSecretNotFound) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %d and %d bytes, %v and %v", name, len(got), len(want), err, wantErr)
		}
	}
}
