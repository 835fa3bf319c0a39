package statestore_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
)

const (
	oneKey     = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	anotherKey = "EjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCrze8="
)

// ending ends a context once the state key was read, so that no connection is made.
type ending struct {
	host.MapSecrets
	end func()
}

func (e ending) Secret(ctx context.Context, name string) (string, error) {
	if name == "k" {
		defer e.end()
	}
	return e.MapSecrets.Secret(ctx, name)
}

// A connection to a database that could be anybody's is in the log. threats.md 139
func TestUnverifiedDatabaseLog(t *testing.T) {
	for parameters, want := range map[string]bool{
		"h.example/d": true, "h.example/d?sslmode=disable": true, "h.example/d?sslmode=require": true, "h.example/d?sslmode=prefer": true,
		"h.example/d?sslmode=verify-full": false, "127.0.0.1/d": false, "[::1]/d": false, "localhost/d": false,
		"127.0.0.1,h.example/d": true, "/d?host=%2Frun%2Fpostgresql": false,
	} {
		var log strings.Builder
		ended, cancel := context.WithCancel(t.Context())
		set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte("connectors: [{name: a, url: 'https://a.example', auth: {type: none}}]\n"+
			"state: {type: postgres, url: \"{{ get_secret('url') }}\", keys: \"{{ get_secret('k') }}\"}"), connectors.Options{
			Host: host.Config{Secrets: ending{host.MapSecrets{"k": oneKey, "url": "postgres://u:p@" + parameters}, cancel}}, WithoutStore: true,
		}))(t)
		if _, err := statestore.Open(ended, set.State, statestore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err == nil {
			t.Error("the store is open")
		}
		if got := strings.Contains(log.String(), "is not verified"); got != want {
			t.Errorf("%s: a warning is in the log: %t", parameters, got)
		}
		testworld.Check(t, set.Close(t.Context()))
	}
}

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
		store := testworld.Must(open(t, file, state, host.MapSecrets{"k": oneKey}))(t)
		testworld.Check(t, store.Close(t.Context()))
	}
	info, err := os.Stat(filepath.Join(dir, "state.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("info = %v, err = %v", info, err)
	}
	_, err = open(t, file, state, host.MapSecrets{"k": anotherKey})
	if err == nil || !strings.Contains(err.Error(), "state key") || strings.Contains(err.Error(), anotherKey[:8]) {
		t.Errorf("with another key: %v", err)
	}
	store := testworld.Must(open(t, file, `{type: sqlite, path: state.db, keys: ["{{ get_secret('new') }}", "{{ get_secret('k') }}"]}`, host.MapSecrets{"k": oneKey, "new": anotherKey}))(t)
	testworld.Check(t, store.Close(t.Context()))
}

// A database that cannot be reached is an error with the place of the member, and without the password. threats.md 139
func TestNoDatabase(t *testing.T) {
	const canary = "c4n4ry0x9"
	_, err := open(t, "connectors.yaml", `{type: postgres, url: "{{ get_secret('url') }}", keys: "{{ get_secret('k') }}"}`, host.MapSecrets{
		"k": oneKey, "url": "postgres://user:" + canary + "@127.0.0.1:1/database",
	})
	if err == nil || !strings.Contains(err.Error(), "connectors.yaml:2:8: state: ") || !strings.Contains(err.Error(), "the database cannot be reached") {
		t.Errorf("err = %v", err)
	}
	if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), oneKey[:8])) {
		t.Errorf("the error shows a secret: %v", err)
	}
}
