package secretstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// owned has names of secrets of two tenants and two users, one ID being that of a tenant and of a user.
var owned = []string{"tenants/acme/crm", "tenants/beta/crm", "users/acme/crm", "users/7-b_c/crm"}

// wantOwned checks a store with a general secret crm, and with those of owned.
func (c *canaries) wantOwned(store host.Secrets, values map[string]string) {
	c.t.Helper()
	for range 2 {
		for name, value := range values {
			c.want(store, name, value)
		}
	}
	for _, name := range []string{"tenants/gamma/crm", "users/beta/crm", "tenants/acme/other", "tenants/acme"} {
		c.wantMissing(store, name, "")
	}
	// threats.md 117: what is no name is not looked for.
	for _, name := range []string{
		"tenants/../crm", "tenants/acme/../beta/crm", "tenants/Acme/crm", "TENANTS/acme/crm", "tenants/acme./crm", "tenants//acme/crm", "tenants//crm",
		"/tenants/acme/crm", "tenants/./acme/crm", "users/acme/../../crm", "tenants/acme/crm\x00", "tenants/*/crm", "tenants/" + strings.Repeat("a", 129) + "/crm",
	} {
		c.wantMissing(store, name, "is not a secret's name")
	}
}

// set calls put with a new canary for each name, and returns the canaries.
func (c *canaries) set(put func(name, value string)) map[string]string {
	values := map[string]string{}
	for _, name := range append([]string{"crm"}, owned...) {
		values[name] = c.Secret("secret " + name)
		put(name, values[name])
	}
	return values
}

func TestADirectoryHasSecretsOfTenantsAndUsers(t *testing.T) {
	c, dir := newCanaries(t), t.TempDir()
	values := c.set(func(name, value string) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		testworld.Check(t, os.MkdirAll(filepath.Dir(file), 0o700))
		write(t, file, []byte(value+"\n"), 0o600)
	})
	c.wantOwned(secretstore.Dir(dir, newClock().Now), values)
}

// Kubernetes mounts a secret with directories, by the paths of its items, behind a link.
func TestADirectoryOfKubernetesHasSecretsOfTenants(t *testing.T) {
	c, dir := newCanaries(t), t.TempDir()
	value := c.Secret("secret")
	testworld.Check(t, os.MkdirAll(filepath.Join(dir, "..version", "tenants", "acme"), 0o700))
	write(t, filepath.Join(dir, "..version", "tenants", "acme", "crm"), []byte(value), 0o600)
	for link, to := range map[string]string{"..data": "..version", "tenants": "..data/tenants"} {
		testworld.Check(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	c.want(secretstore.Dir(dir, newClock().Now), "tenants/acme/crm", value)
}

func TestAnAgeFileHasSecretsOfTenantsAndUsers(t *testing.T) {
	w := newAge(t)
	document := map[string]string{}
	values := w.set(func(name, value string) { document[name] = value })
	w.put(document)
	w.wantOwned(w.store, values)
	for _, name := range []string{"tenants/Acme/crm", "tenants/acme", "tenants/acme/crm/x", "groups/acme/crm", "tenants/../crm"} {
		w.put(map[string]string{"crm": values["crm"], name: values["crm"]})
		w.wantFailure(w.store, "crm", "a name is not one of a secret")
	}
}

func TestVaultHasSecretsOfTenantsAndUsers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config secretstore.VaultConfig
		// where returns the path with the mount and the field of a secret.
		where func(name string) (path, field string)
	}{
		{"below a prefix", secretstore.VaultConfig{Prefix: "apps/gateway"}, func(name string) (path, field string) {
			return "secret/apps/gateway/" + name, "value"
		}},
		{"fields of a path", secretstore.VaultConfig{Path: "apps/gateway"}, func(name string) (path, field string) {
			if name == "crm" {
				return "secret/apps/gateway", "crm"
			}
			return "secret/apps/gateway/" + strings.TrimSuffix(name, "/crm"), "crm"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeVault(t)
			values := f.set(func(name, value string) {
				path, field := tt.where(name)
				f.secrets[path] = map[string]any{field: value}
			})
			tt.config.AppRole = f.appRole()
			store := testworld.Must(secretstore.Cached(f.store(tt.config), time.Minute, f.Now))(t)
			f.wantOwned(store, values)
		})
	}
}
