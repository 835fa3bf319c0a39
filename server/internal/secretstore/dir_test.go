package secretstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// However a file is replaced, the old secret is used for a second and no longer (threats.md 78).
func TestReplacedFile(t *testing.T) {
	for _, way := range []struct {
		name    string
		replace func(t *testing.T, dir, value string)
	}{
		{"renamed into its place", func(t *testing.T, dir, value string) { write(t, filepath.Join(dir, "crm"), []byte(value), 0o600) }},
		{"written in place, with the same size and time", func(t *testing.T, dir, value string) {
			name := filepath.Join(dir, "crm")
			before := testworld.Must(os.Stat(name))(t)
			testworld.Check(t, os.WriteFile(name, []byte(value), 0o600))
			testworld.Check(t, os.Chtimes(name, before.ModTime(), before.ModTime()))
		}},
		{"removed and made again", func(t *testing.T, dir, value string) {
			testworld.Check(t, os.Remove(filepath.Join(dir, "crm")))
			write(t, filepath.Join(dir, "crm"), []byte(value), 0o600)
		}},
		{"the link of Kubernetes leads elsewhere", mount},
	} {
		t.Run(way.name, func(t *testing.T) {
			c, now, dir := newCanaries(t), newClock(), t.TempDir()
			first, second := c.Secret("a secret"), c.Secret("a secret")
			if way.name == "the link of Kubernetes leads elsewhere" {
				mount(t, dir, first)
			} else {
				write(t, filepath.Join(dir, "crm"), []byte(first), 0o600)
			}
			store := secretstore.Dir(dir, now.Now)
			c.want(store, "crm", first)
			way.replace(t, dir, second)
			now.Advance(time.Second)
			c.want(store, "crm", second)
		})
	}
}

// mount writes a secret as Kubernetes does: crm is a link to ..data/crm, and ..data is a link to a directory. It replaces the
// link ..data by renaming.
func mount(t *testing.T, dir, value string) {
	t.Helper()
	version := testworld.Must(os.MkdirTemp(dir, "..version"))(t)
	write(t, filepath.Join(version, "crm"), []byte(value), 0o600)
	testworld.Check(t, os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")))
	testworld.Check(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if err := os.Symlink("..data/crm", filepath.Join(dir, "crm")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

func TestFileReadRate(t *testing.T) {
	c, now, dir := newCanaries(t), newClock(), t.TempDir()
	value := c.Secret("a secret")
	write(t, filepath.Join(dir, "crm"), []byte(value), 0o600)
	store := secretstore.Dir(dir, now.Now)
	c.want(store, "crm", value)
	testworld.Check(t, os.Rename(dir, dir+".gone"))
	now.Advance(time.Second - 1)
	c.want(store, "crm", value) // the file is gone, so the value is cached
	now.Advance(1)
	c.wantFailure(store, "crm", "the secrets directory cannot be opened")
	testworld.Check(t, os.Rename(dir+".gone", dir))
	c.want(store, "crm", value)
}

// A file that is missing, unreadable or empty is read again at the next lookup.
func TestNewFile(t *testing.T) {
	c, now, dir := newCanaries(t), newClock(), t.TempDir()
	name, value := filepath.Join(dir, "crm"), c.Secret("a secret")
	store := secretstore.Dir(dir, now.Now)
	c.wantMissing(store, "crm", `there is no file "crm" in the secrets directory`)
	write(t, name, nil, 0o600)
	c.want(store, "crm", "")
	write(t, name, []byte(" \n"), 0o600)
	c.want(store, "crm", " ")
	testworld.Check(t, os.Remove(name))
	testworld.Check(t, os.Mkdir(name, 0o700))
	c.wantFailure(store, "crm", "not a regular file")
	testworld.Check(t, os.Remove(name))
	write(t, name, []byte(value), 0o600)
	c.want(store, "crm", value)
	testworld.Check(t, os.Remove(name))
	now.Advance(time.Second)
	c.wantMissing(store, "crm", `there is no file "crm" in the secrets directory`)
}

// The time to read many secrets grows with their number, because the cache is not searched for each (threats.md 79).
func TestManySecretsCostNoMoreEach(t *testing.T) {
	now := newClock()
	var asked atomic.Int64
	clock := func() time.Time {
		asked.Add(1)
		return now.Now()
	}
	store := testworld.Must(secretstore.Cached(storeFunc(func(_ context.Context, name string) (string, error) { return name, nil }), time.Second, clock))(t)
	const many = 5000
	for range 2 {
		for i := range many {
			testworld.Must(store.Secret(t.Context(), fmt.Sprint(i)))(t)
		}
		now.Advance(2 * time.Second)
	}
	if n := asked.Load(); n > 2*many*10 { // each check of an answer reads the clock
		t.Errorf("the clock was asked %d times for %d secrets", n, 2*many)
	}
}

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
