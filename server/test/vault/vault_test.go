// Package vault tests the store of secrets in Vault with HashiCorp's server.
package vault

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

const canary = "canary-9bQe4Wm7Lz1Y"

// A setup is a server, and a clock for the store that can be ahead of the server's.
type setup struct {
	*Server
	t     *testing.T
	ahead time.Duration
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	s := &setup{Server: New(t), t: t}
	s.Put("apps/crm", map[string]any{"value": canary, "other": 7})
	return s
}

func (s *setup) store(c secretstore.VaultConfig) *secretstore.VaultStore {
	s.t.Helper()
	c.Address, c.CAFile, c.Mount = s.URL, s.File("ca.pem"), cmp.Or(c.Mount, "kv")
	if c.Path == "" {
		c.Prefix = cmp.Or(c.Prefix, "apps")
	}
	c.Clock = func() time.Time { return time.Now().Add(s.ahead) }
	return testworld.Must(secretstore.Vault(c))(s.t)
}

func (s *setup) appRole() secretstore.VaultConfig {
	return secretstore.VaultConfig{AppRole: &secretstore.VaultAppRole{RoleID: s.RoleID, SecretIDFile: s.File("secret_id")}}
}

func (s *setup) kubernetes() secretstore.VaultConfig {
	return secretstore.VaultConfig{Kubernetes: &secretstore.VaultJWT{Role: "gateway", TokenFile: s.File("jwt")}}
}

func (s *setup) want(store host.Secrets, name string) {
	s.t.Helper()
	if got, err := store.Secret(context.Background(), name); got != canary || err != nil {
		s.t.Fatalf("secret %q is %q, %v", name, got, err)
	}
}

func (s *setup) wantError(store host.Secrets, name, words string, missing bool) {
	s.t.Helper()
	got, err := store.Secret(context.Background(), name)
	if err == nil || got != "" {
		s.t.Fatalf("secret %q is %q, %v; want an error", name, got, err)
	}
	if !strings.Contains(err.Error(), words) || errors.Is(err, host.ErrSecretNotFound) != missing {
		s.t.Errorf("the error is %q, want it to say %q; is it ErrSecretNotFound? want %t", err, words, missing)
	}
	for _, hidden := range []string{canary, s.Root, s.SecretID, s.ServiceAccountToken} {
		if strings.Contains(err.Error(), hidden) {
			s.t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func (s *setup) wantAsked(times int, request string) {
	s.t.Helper()
	if got := s.Asked(request); got != times {
		s.t.Errorf("%s was asked %d times, want %d", request, got, times)
	}
}

const (
	appRoleLogin = "POST /v1/auth/approle/login"
	renewal      = "POST /v1/auth/token/renew-self"
)

func TestLogins(t *testing.T) {
	s := newSetup(t)
	s.Write("token", s.Token()+"\n")
	s.Write("root", s.Root)
	for name, config := range map[string]secretstore.VaultConfig{
		"root token": {TokenFile: s.File("root")}, "token file": {TokenFile: s.File("token")},
		"AppRole": s.appRole(), "Kubernetes": s.kubernetes(),
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.want(s.store(config), "crm")
		})
	}
}

func TestPresentAndMissing(t *testing.T) {
	s := newSetup(t)
	byName := s.store(s.appRole())
	s.want(byName, "crm")
	s.wantError(byName, "none", "vault has nothing at kv/data/apps/none", true)
	s.Put("apps/gone", map[string]any{"value": canary})
	s.want(byName, "gone")
	s.Do("DELETE", "kv/data/apps/gone", nil)
	s.wantError(byName, "gone", "vault has nothing at kv/data/apps/gone", true)
	s.Do("PUT", "kv/destroy/apps/gone", map[string]any{"versions": []int{1}})
	s.wantError(byName, "gone", "vault has nothing at kv/data/apps/gone", true)
	s.Put("apps/number", map[string]any{"value": 7})
	s.wantError(byName, "number", "is not text", false)
	s.Put("apps/other-field", map[string]any{"x": canary})
	s.wantError(byName, "other-field", `no field "value"`, false)

	fields := s.appRole()
	fields.Path = "apps/all"
	s.Put("apps/all", map[string]any{"crm.key": canary})
	all := s.store(fields)
	s.want(all, "crm.key")
	s.wantError(all, "none", `no field "none"`, true)

	escaped := s.appRole()
	escaped.Prefix = "apps/a b/ü+c"
	s.Put("apps/a%20b/%C3%BC+c/crm", map[string]any{"value": canary})
	s.want(s.store(escaped), "crm")

	nowhere := s.appRole()
	nowhere.Mount = "none"
	s.wantError(s.store(nowhere), "crm", "vault has no engine at none/data/apps/crm", false)
	forbidden := s.appRole()
	forbidden.Mount = "elsewhere"
	s.wantError(s.store(forbidden), "crm", "(403)", false)

	s.Put("apps/crm", map[string]any{"value": "another"})
	if got, err := byName.Secret(t.Context(), "crm"); got != "another" || err != nil {
		t.Errorf("after a rotation the secret is %q, %v", got, err)
	}
}

func TestRenewal(t *testing.T) {
	for name, config := range map[string]func(s *setup) secretstore.VaultConfig{
		"AppRole": (*setup).appRole, "Kubernetes": (*setup).kubernetes,
		"token": func(s *setup) secretstore.VaultConfig {
			s.Write("token", s.Token())
			return secretstore.VaultConfig{TokenFile: s.File("token")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			store := s.store(config(s))
			for range 3 {
				s.want(store, "crm")
				s.ahead += 45 * time.Minute
			}
			s.wantAsked(2, renewal)
			if n := s.Asked(appRoleLogin) + s.Asked("POST /v1/auth/kubernetes/login"); n > 1 {
				t.Errorf("there were %d logins", n)
			}
		})
	}
}

func TestUnrenewableToken(t *testing.T) {
	s := newSetup(t)
	s.Do("POST", "auth/approle/role/gateway", map[string]any{"token_policies": "gateway", "token_ttl": "1h", "token_type": "batch"})
	store := s.store(s.appRole())
	s.want(store, "crm")
	s.ahead += 45 * time.Minute
	s.want(store, "crm")
	s.wantAsked(2, appRoleLogin)
	s.wantAsked(0, renewal)
}

func TestATokenNearTheEndOfItsTime(t *testing.T) {
	s := newSetup(t)
	store := s.store(s.appRole())
	s.want(store, "crm")
	s.Do("POST", "auth/approle/role/gateway", map[string]any{"token_policies": "gateway", "token_ttl": "1m", "token_max_ttl": "10m"})
	s.ahead += 45 * time.Minute
	s.want(store, "crm") // the token is renewed for less than half an hour, so there is a new login
	s.wantAsked(1, renewal)
	s.wantAsked(2, appRoleLogin)
}

func TestARevokedToken(t *testing.T) {
	s := newSetup(t)
	store := s.store(s.appRole())
	s.want(store, "crm")
	s.ahead += time.Minute
	s.Do("POST", "sys/leases/revoke-prefix/auth/approle/login", map[string]any{"sync": true})
	s.want(store, "crm")
	s.wantAsked(2, appRoleLogin)

	s.Write("token", s.Token())
	file := s.store(secretstore.VaultConfig{TokenFile: s.File("token")})
	s.want(file, "crm")
	s.Do("POST", "sys/leases/revoke-prefix/auth/token/create", map[string]any{"sync": true})
	s.wantError(file, "crm", "the token must be valid", false)
	s.Write("token", s.Token())
	s.want(file, "crm")
	s.Write("none", "hvs.none")
	s.wantError(s.store(secretstore.VaultConfig{TokenFile: s.File("none")}), "crm", "the token must be valid", false)
}

func TestRefusedLogins(t *testing.T) {
	s := newSetup(t)
	s.Write("secret_id", "b0e5f0a6-0000-0000-0000-000000000000")
	s.Write("jwt", s.ServiceAccountToken+"x")
	role, account := s.store(s.appRole()), s.store(s.kubernetes())
	for range 20 { // the server locks a role out after five
		s.wantError(role, "crm", "vault refuses the login at auth/approle/login: it answered 400", false)
		s.wantError(account, "crm", "vault refuses the login at auth/kubernetes/login: it answered 403", false)
	}
	s.wantAsked(1, appRoleLogin)
	s.Write("secret_id", s.SecretID)
	s.Write("jwt", s.ServiceAccountToken)
	s.ahead += 10 * time.Second
	s.want(role, "crm")
	s.want(account, "crm")
}

func TestASealedServer(t *testing.T) {
	s := newSetup(t)
	store, late := s.store(s.appRole()), s.store(s.kubernetes())
	s.want(store, "crm")
	s.Seal()
	s.wantError(store, "crm", "it answered 503: it is sealed", false)
	s.wantError(late, "crm", "it answered 503: it is sealed", false)
	s.Unseal()
	s.want(store, "crm")
	s.want(late, "crm")
}
