package acts_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// world has what an acts.Log writes to.
type world struct {
	*acts.Log
	now   time.Time
	audit *audit.Log
	path  string
	store *records.Store
}

func newWorld(t *testing.T, withAudit bool) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), path: filepath.Join(t.TempDir(), "audit.log")}
	clock := func() time.Time { return w.now }
	discard := slog.New(slog.DiscardHandler)
	if withAudit {
		w.audit = testworld.Must(audit.Open(audit.Config{Path: w.path, Logger: discard, Clock: clock, Lossy: true}))(t)
		t.Cleanup(func() { _ = w.audit.Close() })
	}
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	t.Cleanup(func() { _ = errors.Join(state.Close(context.Background()), db.Close()) })
	w.store = &records.Store{Records: db, State: state}
	w.Log = acts.New(acts.Config{Node: "a", Clock: clock, Logger: discard, Audit: func() *audit.Log { return w.audit }, Store: w.store})
	return w
}

func (w *world) list(t *testing.T, f acts.Filter) (text string) {
	t.Helper()
	all, _, err := w.List(t.Context(), f, "", 10)
	if err != nil {
		t.Error(err)
	}
	for _, a := range all {
		text += a.Who + " " + a.Act + " " + a.Target + " " + a.Outcome + "; "
	}
	return text
}

// An act is in the audit log before it is done, and in the list of all nodes with its outcome afterwards (threats.md 582).
func TestActs(t *testing.T) {
	w := newWorld(t, true)
	testworld.Check(t, w.Do(t.Context(), acts.Act{Who: "ann", Act: "end", Target: "orders", Address: "192.0.2.1"}, func() error {
		if text := string(testworld.Must(os.ReadFile(w.path))(t)); !strings.Contains(text, `"use":"act"`) || !strings.Contains(text, `"who":"ann","address":"192.0.2.1","act":"end","target":"orders","hash"`) {
			t.Errorf("before the act, the audit log is %s", text)
		}
		return nil
	}))
	w.Note(t.Context(), acts.Act{Who: "bob", Act: "test", Target: "crm", Outcome: acts.Done})
	if got, want := w.list(t, acts.Filter{}), "bob test crm done; ann end orders done; "; got != want {
		t.Errorf("acts = %s, want %s", got, want)
	}
	if got := w.list(t, acts.Filter{Who: "ann"}); got != "ann end orders done; " {
		t.Errorf("acts of ann: %s", got)
	}
}

// An act that cannot be recorded is not done, also where the audit log of uses may have gaps.
func TestUnrecordedAct(t *testing.T) {
	w := newWorld(t, true)
	testworld.Check(t, os.Remove(w.path))
	testworld.Check(t, os.Mkdir(w.path, 0o700))
	act := func() error {
		t.Error("an act that is not recorded is done")
		return nil
	}
	if err := w.Do(t.Context(), acts.Act{Who: "ann", Act: "end"}, act); !errors.Is(err, acts.ErrUnrecorded) || w.list(t, acts.Filter{}) != "" {
		t.Errorf("without its file: %v, %s", err, w.list(t, acts.Filter{}))
	}
	testworld.Check(t, os.Remove(w.path))
	broken := newWorld(t, false)
	broken.store.Records = brokenRecords{}
	if err := broken.Do(t.Context(), acts.Act{Who: "ann", Act: "end"}, act); !errors.Is(err, statedb.ErrUnreachable) {
		t.Errorf("with a store that fails: %v", err)
	}
}

// brokenRecords is a store that does not answer.
type brokenRecords struct{ statedb.Records }

func (brokenRecords) PutRecords(context.Context, ...statedb.Record) error {
	return &statedb.Error{Op: "write records", Kind: statedb.ErrUnreachable}
}

// Refused logins of an address are one act a minute, with their number.
func TestRefusedLogins(t *testing.T) {
	w := newWorld(t, false)
	for range 100 {
		w.RefuseLogin(t.Context(), "192.0.2.7")
	}
	w.RefuseLogin(t.Context(), "192.0.2.8")
	w.now = w.now.Add(time.Minute)
	w.RefuseLogin(t.Context(), "192.0.2.7")
	all, _, err := w.List(t.Context(), acts.Filter{Act: "login"}, "", 10)
	if err != nil || len(all) != 3 || all[0].Times != 100 || all[2].Times != 1 {
		t.Errorf("acts = %+v, err = %v", all, err)
	}
}
