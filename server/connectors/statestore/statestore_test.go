package statestore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
)

const (
	oneKey     = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	anotherKey = "EjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCrze8="
)

// open loads a file and opens its store.
func open(t *testing.T, file, state string, secrets host.MapSecrets) (*statestore.Store, error) {
	t.Helper()
	var opened *statestore.Store
	set, err := connectors.Read(t.Context(), file, []byte("connectors: [{name: a, url: 'https://a.example', auth: {type: none}}]\nstate: "+state), connectors.Options{
		Host: host.Config{Secrets: secrets},
		OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
			if opened, err = statestore.Open(ctx, s, statestore.Options{}); err == nil {
				c.State = opened.State
			}
			return err
		},
	})
	if err == nil {
		err = set.Close(t.Context())
	}
	return opened, err
}

// A file of SQLite is made beside the file of connectors, for its owner only. With another state key it is refused, and the
// error shows no key. threats.md 139
func TestSQLite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	const state = `{type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}`
	for range 2 {
		store, err := open(t, file, state, host.MapSecrets{"k": oneKey})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "state.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	_, err = open(t, file, state, host.MapSecrets{"k": anotherKey})
	if err == nil || !strings.Contains(err.Error(), "state key") || strings.Contains(err.Error(), anotherKey[:8]) {
		t.Errorf("with another key: %v", err)
	}
	store, err := open(t, file, `{type: sqlite, path: state.db, keys: ["{{ get_secret('new') }}", "{{ get_secret('k') }}"]}`, host.MapSecrets{"k": oneKey, "new": anotherKey})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A database that cannot be reached is an error with the place of the member, and without the password. threats.md 139
func TestNoDatabase(t *testing.T) {
	const canary = "c4n4ry0x9"
	_, err := open(t, "connectors.yaml", `{type: postgres, url: "{{ get_secret('url') }}", keys: "{{ get_secret('k') }}"}`, host.MapSecrets{
		"k": oneKey, "url": "postgres://user:" + canary + "@127.0.0.1:1/database",
	})
	if err == nil || !strings.Contains(err.Error(), "connectors.yaml:2:8: state: ") || !strings.Contains(err.Error(), "the database cannot be reached") {
		t.Errorf("%v", err)
	}
	if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), oneKey[:8])) {
		t.Errorf("the error shows a secret: %v", err)
	}
}
