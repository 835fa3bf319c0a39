package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// failingStore fails while err is set.
type failingStore struct {
	state.Store
	err error
}

func (f *failingStore) Get(ctx context.Context, id state.ID) (state.Row, error) {
	if f.err != nil {
		return state.Row{}, f.err
	}
	return f.Store.Get(ctx, id)
}

func (f *failingStore) Put(context.Context, state.Lease, []byte, time.Duration, bool) (bool, error) {
	return false, f.err
}

func (f *failingStore) Wait(context.Context, state.ID, int64) error { return nil }

// Metrics and the notice of /readyz say that the store of state fails, until it answers again. A caller who has gone says
// nothing about the store. threats.md 138
func TestFailingStoreShown(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := metricsOf()
	s := &sharedState{clock: func() time.Time { return now }}
	s.observe(m)
	failing := &failingStore{Store: state.NewMemory(time.Now)}
	observed := &observedStore{failing, s}
	get := func(ctx context.Context) { _, _ = observed.Get(ctx, state.ID{}) }
	check := func(notice string, lines ...string) {
		t.Helper()
		if got := s.notice(); notice == "" && got != "" || !strings.Contains(got, notice) {
			t.Errorf("the notice is %q, want %q", got, notice)
		}
		text := page(t, m)
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("the page does not have %s:\n%s", line, text)
			}
		}
	}
	get(t.Context())
	check("", "keywright_state_available 1")
	failing.err = errors.New("the database cannot be reached")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	get(gone)
	check("", "keywright_state_available 1")
	get(t.Context())
	now = now.Add(time.Hour)
	_, _ = observed.Put(t.Context(), state.Lease{}, nil, 0, false)
	check("has not answered since 2023-11-14T22:13:20Z", "keywright_state_available 0",
		`keywright_state_errors_total{operation="read"} 1`, `keywright_state_errors_total{operation="write"} 1`)
	failing.err = nil
	get(t.Context())
	_ = observed.Wait(t.Context(), state.ID{}, 0)
	check("", "keywright_state_available 1", `keywright_state_errors_total{operation="read"} 1`, "keywright_state_waits_total 1")
}

// downStore fails while down is set, and counts what it is asked.
type downStore struct {
	state.Store
	down  atomic.Bool
	asked atomic.Int32
}

func (d *downStore) Get(ctx context.Context, id state.ID) (state.Row, error) {
	d.asked.Add(1)
	if d.down.Load() {
		return state.Row{}, errors.New("the database cannot be reached")
	}
	return d.Store.Get(ctx, id)
}

// A process without requests learns that a store of state which failed answers again. It does not ask one that has not failed.
// threats.md 138
func TestFailedStoreProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharedState{clock: time.Now}
		s.observe(metricsOf())
		store := &downStore{Store: state.NewMemory(time.Now)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.probe(ctx, store)
		}()
		store.down.Store(true)
		probed := func(want int32, fails bool) {
			t.Helper()
			time.Sleep(probeInterval)
			synctest.Wait()
			if asked, failing := store.asked.Load(), !s.since().IsZero(); asked != want || failing != fails {
				t.Errorf("the store was asked %d times, want %d; it is taken for failing: %t, want %t", asked, want, failing, fails)
			}
		}
		probed(0, false)
		s.called(ctx, "read", errors.New("the database cannot be reached"))
		probed(1, true)
		store.down.Store(false)
		probed(2, false)
		probed(2, false)
		cancel()
		<-ended
	})
}

// A store of state that is open only when the process has ended already, as on a disk that hangs, is closed again.
func TestLateStore(t *testing.T) {
	s := &sharedState{clock: time.Now}
	testworld.Check(t, s.close())
	file := filepath.Join(t.TempDir(), "state.db")
	text := fmt.Sprintf("connectors: [{name: a, url: 'https://api.test', auth: {type: none}}]\nstate: {type: sqlite, path: %q, keys: \"{{ get_secret('k') }}\"}", file)
	var late error
	_, err := connectors.Read(t.Context(), "connectors.yaml", []byte(text), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"k": base64.StdEncoding.EncodeToString([]byte("a state key of 32 bytes, for all"))}},
		OpenState: func(ctx context.Context, settings *connectors.State, c *host.Config) error {
			_, _, late = s.start(ctx, settings, *c, metricsOf())
			return late
		},
	})
	if err == nil || !errors.Is(late, context.Canceled) {
		t.Errorf("the errors are %v and %v", err, late)
	}
	if _, err := os.Stat(file + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store is open: %v", err)
	}
}
