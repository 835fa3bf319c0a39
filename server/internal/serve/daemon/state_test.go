package daemon_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

const (
	stateKey  = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	withState = echo + `state: {type: sqlite, path: state.db, keys: "{{ get_secret('state') }}"}` + "\n"
)

// withStateKey adds the state key to the secrets.
func withStateKey(c *daemon.Config) {
	c.Options.Host.Secrets = host.MapSecrets{"key": secret, "state": stateKey}
}

// The store of state is opened once, stays open while the file changes, and is closed at the end. A changed member is refused,
// and says that it needs a restart.
func TestStateGoesOn(t *testing.T) {
	w := start(t, version, withState, withStateKey)
	w.Hide("the state key", stateKey)
	open := func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(w.file), "state.db-wal"))
		return !errors.Is(err, fs.ErrNotExist)
	}
	_, page := w.get(w.operators + "/metrics")
	for _, line := range []string{"keywright_state_available 1\n", "keywright_state_degraded_exchanges_total 0\n", "keywright_state_waits_total 0\n"} {
		if !strings.Contains(page, line) {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(withState, "state.db", "other.db", 1), "the configuration is not used, and the one before goes on: " + "6:8: state: cannot be added or changed while this runs: restart it"},
		{echo, "the configuration is not used, and the one before goes on: state cannot be taken away while this runs: restart it"},
		{strings.Replace(withState, `"1"`, `"2"`, 1), "the configuration is in use: "},
	} {
		w.write(c.text)
		if got := w.said(); got != c.want {
			t.Errorf("the log says %s, want %s", got, c.want)
		}
		if !open() {
			t.Error("the store was closed")
		}
	}
	w.gets(w.callers+"/connectors/echo", http.StatusOK, "2 true")
	if err := w.end(); err != nil || open() {
		t.Errorf("the end: %v; the store is open: %t", err, open())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.file), "other.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another store was opened: %v", err)
	}
}

// A store of state cannot be added while the gateway runs.
func TestAddedState(t *testing.T) {
	w := start(t, version, echo, withStateKey)
	w.write(withState)
	if got := w.said(); !strings.HasSuffix(got, "state: cannot be added or changed while this runs: restart it") {
		t.Errorf("the log says %s", got)
	}
	if _, page := w.get(w.operators + "/metrics"); strings.Contains(page, "keywright_state_") {
		t.Error("there are metrics of a store that is not there")
	}
}
