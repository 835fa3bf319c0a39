package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// The times of rows are by the clock that was passed.
func TestClock(t *testing.T) {
	var c clock
	c.advance(1e18)
	store := testworld.Must(Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), Options{Clock: c.now}))(t)
	defer store.Close()
	lease, taken, err := store.Acquire(t.Context(), state.ID{1}, 0, time.Minute)
	if err != nil || !taken {
		t.Fatal(taken, err)
	}
	if ok, err := store.Put(t.Context(), lease, []byte("x"), time.Hour, false); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, step := range []struct {
		after, lease, value time.Duration
	}{{0, time.Minute, time.Hour}, {59 * time.Second, time.Second, 59*time.Minute + time.Second}, {time.Second, 0, 59 * time.Minute}, {59 * time.Minute, 0, 0}} {
		c.advance(step.after)
		row, err := store.Get(t.Context(), lease.ID)
		if err != nil || row.LeasedFor != step.lease || row.ExpiresIn != step.value || (row.Value != nil) != (step.value > 0) {
			t.Errorf("after %v: %+v, %v", step.after, row, err)
		}
	}
}

// In one process a change wakes who waits, who need not look again.
func TestChangesWake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := testworld.Must(open(t.Context(), path, Options{}, sqlstate.Times{Poll: time.Hour, Sweep: time.Hour, Limit: time.Minute}))(t)
	defer store.Close()
	lease, _, err := store.Acquire(t.Context(), state.ID{1}, 0, time.Hour)
	testworld.Check(t, err)
	ended := make(chan error)
	go func() { ended <- store.Wait(context.Background(), lease.ID, lease.Generation) }()
	testworld.Check(t, store.Release(t.Context(), lease))
	testworld.Check(t, <-ended)
}

func TestOnlyTheUserReadsTheFiles(t *testing.T) {
	directory := t.TempDir()
	store := testworld.Must(Open(t.Context(), filepath.Join(directory, "state.db"), Options{}))(t)
	defer store.Close()
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %s, %v", file.Name(), info.Mode(), err)
		}
	}
}

func TestOpenRejectsOtherFiles(t *testing.T) {
	directory := t.TempDir()
	text := filepath.Join(directory, "text")
	testworld.Check(t, os.WriteFile(text, []byte(strings.Repeat("this is text, and not a database\n", 100)), 0o600))
	for path, want := range map[string]string{
		directory:                                "it is a directory",
		filepath.Join(directory, "missing", "x"): "its directory does not exist: make it first",
		text:                                     "not a database of SQLite",
	} {
		if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not say %q", path, err, want)
		}
	}
	if _, err := Open(t.Context(), text, Options{}); !errors.Is(err, statedb.ErrSchema) {
		t.Errorf("err = %v", err)
	}
}

// A file beside which SQLite can make no other, as on a disk that is read-only, is an error that says what to do.
func TestOpenWhereNoFileCanBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	testworld.Check(t, os.Mkdir(path+"-journal", 0o700))
	testworld.WantError(t, "", testworld.ErrorOf(Open(t.Context(), path, Options{})), "on a disk that is not read-only")
}

// Observe is called after each operation on a row, with its error.
func TestObservedOperations(t *testing.T) {
	var operations []string
	store := testworld.Must(Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), Options{Observe: func(_ context.Context, operation string, _ time.Duration, err error) {
		operations = append(operations, fmt.Sprint(operation, " ", err == nil))
	}}))(t)
	id := state.ID{1}
	lease, ok, err := store.Acquire(t.Context(), id, 0, time.Minute)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	testworld.Must(store.Put(t.Context(), lease, []byte("a"), 0, false))(t)
	testworld.Check(t, store.Release(t.Context(), lease))
	row := testworld.Must(store.Get(t.Context(), id))(t)
	testworld.Must(store.Reseal(t.Context(), id, row.Generation, []byte("b")))(t)
	testworld.Check(t, store.Wait(t.Context(), id, row.Generation))
	testworld.Must(store.Delete(t.Context(), id, row.Generation))(t)
	testworld.Check(t, store.Close())
	if _, err := store.Get(t.Context(), id); err == nil {
		t.Error("a closed store has answered")
	}
	want := "acquire true, write true, release true, read true, seal true, read true, wait true, delete true, read false"
	if got := strings.Join(operations, ", "); got != want {
		t.Errorf("operations = %s, want %s", got, want)
	}
}
