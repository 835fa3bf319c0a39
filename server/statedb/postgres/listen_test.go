package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// A change by another process wakes who waits, and nobody asks the database meanwhile.
func TestChangesWake(t *testing.T) {
	address := postgrestest.Database(t)
	here, there := opened(t, address, Options{}, never), opened(t, address, Options{}, never)
	until(t, raw(t, address), 2, listeners)
	for name, change := range map[string]func(state.Lease){
		"value":    func(l state.Lease) { write(t, there, l) },
		"released": func(l state.Lease) { _ = there.Release(t.Context(), l) },
		"deleted":  func(l state.Lease) { _, _ = there.Delete(t.Context(), l.ID, l.Generation) },
	} {
		lease := leased(t, there, name, time.Hour)
		ended := waiting(here, lease)
		change(lease)
		if err := <-ended; err != nil {
			t.Error(name, err)
		}
	}
}

// cuttable returns a store whose connection that listens is made only while the returned flag is not set.
func cuttable(t *testing.T, address string, times sqlstate.Times) (statedb.Database, *atomic.Bool) {
	t.Helper()
	config := testworld.Must(postgresurl.Config(address, settings, false))(t)
	var cut atomic.Bool
	store := testworld.Must(start(t.Context(), stdlib.OpenDB(*config), func(context.Context) (*pgx.ConnConfig, error) {
		if cut.Load() {
			return nil, errors.New("cut")
		}
		return config, nil
	}, Options{}, times))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store, &cut
}

const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`

// While the connection that listens is cut, who waits looks now and then, and learns of a change all the same.
func TestWaitersDuringOutage(t *testing.T) {
	address := postgrestest.Database(t)
	times := never
	times.Poll = 5 * time.Millisecond
	here, cut := cuttable(t, address, times)
	there, admin := opened(t, address, Options{Pooler: true}, never), raw(t, address)
	until(t, admin, 1, listeners)
	lease := leased(t, there, "a", time.Hour)
	ended := waiting(here, lease)
	cut.Store(true)
	exec(t, admin, terminate)
	until(t, admin, 0, listeners)
	write(t, there, lease)
	testworld.Check(t, <-ended)
}

// When the connection is there again, who waits looks for what it has missed, and is woken by changes again.
func TestTheConnectionComesBack(t *testing.T) {
	address := postgrestest.Database(t)
	here, cut := cuttable(t, address, never)
	there, admin := opened(t, address, Options{Pooler: true}, never), raw(t, address)
	until(t, admin, 1, listeners)
	missed, later := leased(t, there, "missed", time.Hour), leased(t, there, "later", time.Hour)
	first, second := waiting(here, missed), waiting(here, later)
	cut.Store(true)
	exec(t, admin, terminate)
	until(t, admin, 0, listeners)
	write(t, there, missed)
	cut.Store(false)
	testworld.Check(t, <-first)
	until(t, admin, 1, listeners)
	write(t, there, later)
	testworld.Check(t, <-second)
}

// While the connection cannot be made, attempts go on, and the log has one line.
func TestFailedConnectionLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testworld.Log
		attempts := 0
		l := newListener(func(context.Context) (*pgx.ConnConfig, error) {
			attempts++
			return nil, errors.New("cut")
		}, slog.New(slog.NewTextHandler(&log, nil)))
		l.start(nil)
		time.Sleep(time.Hour) // of the bubble
		l.stop()
		if lines := strings.Count(log.String(), "no news of changes"); lines != 1 || attempts < 100 {
			t.Errorf("%d attempts in an hour, and %d lines:\n%s", attempts, lines, log.String())
		}
	})
}

// An operation is one statement, and so is waiting. A process that does nothing sends none, while others write.
func TestStatements(t *testing.T) {
	address := postgrestest.Database(t)
	store, counter := counted(t, address)
	other := opened(t, address, Options{}, never)
	until(t, raw(t, address), 2, listeners)
	counter.take()
	for n := range 50 {
		write(t, other, leased(t, other, fmt.Sprint(n), time.Hour))
	}
	if sent := counter.take(); len(sent) > 0 {
		t.Errorf("an idle process sent %q", sent)
	}
	some := func(n int, what string, call func()) {
		t.Helper()
		counter.take()
		if call(); len(counter.statements) != n {
			t.Errorf("%s is %q", what, counter.take())
		}
	}
	once := func(what string, call func()) { t.Helper(); some(1, what, call) }
	id := state.ID(sha256.Sum256([]byte("a")))
	var lease state.Lease
	once("Acquire", func() { lease = leased(t, store, "a", time.Hour) })
	once("Get", func() { _, _ = store.Get(t.Context(), id) })
	once("Put", func() { _, _ = store.Put(t.Context(), lease, []byte("x"), time.Hour, false) })
	lease.Generation++
	once("Acquire in vain", func() { _, _, _ = store.Acquire(t.Context(), id, lease.Generation, time.Hour) })
	once("Wait", func() {
		ended := waiting(store, lease)
		until(t, raw(t, address), 1, `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT generation%' AND query_start > (SELECT max(query_start) FROM pg_stat_activity WHERE query LIKE 'UPDATE state_rows%')`)
		if _, err := other.Delete(t.Context(), id, lease.Generation); err != nil {
			t.Error(err)
		}
		testworld.Check(t, <-ended)
	})
	once("Delete", func() { _, _ = store.Delete(t.Context(), id, lease.Generation) })
	once("Release", func() { _ = store.Release(t.Context(), lease) })
	once("Rows", func() { _ = store.Rows(t.Context(), func(state.ID, state.Row) error { return nil }) })
	some(2, "Sweep, of rows and of records,", func() { _, _ = store.Sweep(t.Context(), 10) })
}

// Through a pooler of transactions, a store prepares no statements, listens to nothing, and sets no parameters. It waits by
// looking.
func TestPooler(t *testing.T) {
	address := postgrestest.Database(t)
	times := never
	times.Poll = 5 * time.Millisecond
	pooler := postgrestest.Pooler(t, address)
	here, there := opened(t, pooler, Options{Pooler: true}, times), opened(t, pooler, Options{Pooler: true}, never)
	lease := leased(t, there, "a", time.Hour)
	ended := waiting(here, lease)
	write(t, there, lease)
	testworld.Check(t, <-ended)
	until(t, raw(t, address), 0, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR application_name <> '')`)
}
