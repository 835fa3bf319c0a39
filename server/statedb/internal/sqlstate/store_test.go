package sqlstate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/host/state/statetest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// A row is deleted an hour after it was of any use.
func TestSweeping(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		acquire(t, store, id("abandoned"), time.Minute)
		put(t, store, acquire(t, store, id("expired"), time.Minute), "x", time.Minute)
		put(t, store, acquire(t, store, id("for good"), time.Minute), "x", 0)
		put(t, store, acquire(t, store, id("for days"), time.Minute), "x", 72*time.Hour)
		put(t, store, acquire(t, store, id("in use"), time.Minute), "x", time.Minute)
		sweep := func(want int) {
			t.Helper()
			if n, err := store.Sweep(t.Context(), 10); n != want || err != nil {
				t.Errorf("%d rows, not %d, are deleted; %v", n, want, err)
			}
		}
		sweep(0)
		db.later(t, 50*time.Minute)
		sweep(0)
		acquire(t, store, id("in use"), time.Minute)
		db.later(t, 20*time.Minute)
		sweep(2)
		for name, there := range map[string]bool{"abandoned": false, "expired": false, "for good": true, "for days": true, "in use": true} {
			if (get(t, store, id(name)).Generation != 0) != there {
				t.Errorf("%s: get(t, store, id(name)) = %+v", name, get(t, store, id(name)))
			}
		}
	})
}

// A call that has learned the time, and then waits, may read a row that was written later. The row is as it is. So is a lease of a
// node with a longer time.
func TestSlack(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		put(t, store, acquire(t, store, id("value"), time.Hour), "x", time.Hour)
		acquire(t, store, id("leased"), time.Hour)
		db.later(t, -9*time.Minute)
		if got := get(t, store, id("value")); string(got.Value) != "x" || got.Age != 0 {
			t.Errorf("got = %+v", got)
		}
		got := get(t, store, id("leased"))
		if _, taken, err := store.Acquire(t.Context(), id("leased"), got.Generation, time.Hour/2); taken || err != nil {
			t.Errorf("%+v: taken = %t, err = %v", got, taken, err)
		}
	})
}

// The rows of all pages are seen, each once, while they are written.
func TestAllRows(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		const rows = 230
		for n := range rows {
			put(t, store, acquire(t, store, id(fmt.Sprint(n)), time.Minute), fmt.Sprint(n), time.Hour)
		}
		acquire(t, store, id("no value"), time.Minute)
		seen := map[string]int{}
		err := store.Rows(t.Context(), func(id state.ID, row state.Row) error {
			seen[string(row.Value)]++
			lease, taken, err := store.Acquire(t.Context(), id, row.Generation, time.Minute)
			is(t, true)(taken, err)
			put(t, store, lease, string(row.Value), row.ExpiresIn)
			return nil
		})
		if err != nil || len(seen) != rows {
			t.Errorf("%d rows, %v", len(seen), err)
		}
		for value, n := range seen {
			if n != 1 {
				t.Errorf("row %s is seen %d times", value, n)
			}
		}
	})
}

// Those who wait by another store learn of every change.
func TestWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		here, there := db.open(t), db.open(t)
		for name, change := range map[string]func(state.Lease){
			"a value":           func(l state.Lease) { put(t, there, l, "x", 0) },
			"a value and lease": func(l state.Lease) { is(t, true)(there.Put(t.Context(), l, []byte("x"), 0, false)) },
			"no value":          func(l state.Lease) { is(t, true)(there.Delete(t.Context(), l.ID, l.Generation)) },
			"released":          func(l state.Lease) { _ = there.Release(t.Context(), l) },
		} {
			lease := acquire(t, there, id(name), time.Hour)
			var all sync.WaitGroup
			for n := range 6 {
				store := []statedb.Database{here, there}[n%2]
				all.Go(func() {
					for row := get(t, store, lease.ID); row.Generation == lease.Generation && row.LeasedFor > 0; row = get(t, store, lease.ID) {
						if err := store.Wait(context.Background(), lease.ID, lease.Generation); err != nil {
							t.Errorf("%s: err = %v", name, err)
						}
					}
				})
			}
			change(lease)
			all.Wait()
		}
	})
}

// Close ends all waiting.
func TestCloseEndsWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		lease := acquire(t, store, id("a"), time.Hour)
		ended := make(chan error)
		go func() { ended <- store.Wait(context.Background(), lease.ID, lease.Generation) }()
		testworld.Check(t, store.Close())
		testworld.Check(t, <-ended)
		if _, err := store.Get(t.Context(), lease.ID); !errors.Is(err, statedb.ErrUnreachable) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Errors have kinds, and nothing that was stored.
func TestErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store, row := db.open(t), id("canary")
		lease := acquire(t, store, row, time.Hour)
		calls := func(ctx context.Context) map[string]error {
			_, get := store.Get(ctx, row)
			_, _, create := store.Acquire(ctx, id("other"), 0, time.Hour)
			_, _, acquire := store.Acquire(ctx, row, lease.Generation, time.Hour)
			_, put := store.Put(ctx, lease, []byte("c4n4ry"), 0, true)
			_, remove := store.Delete(ctx, row, lease.Generation)
			_, reseal := store.Reseal(ctx, row, lease.Generation, []byte("c4n4ry"))
			_, sweep := store.Sweep(ctx, 1)
			return map[string]error{
				"get": get, "create": create, "acquire": acquire, "put": put, "delete": remove, "reseal": reseal, "sweep": sweep, "release": store.Release(ctx, lease),
				"rows": store.Rows(ctx, func(state.ID, state.Row) error { return nil }),
			}
		}
		check := func(ctx context.Context, want error) {
			t.Helper()
			for name, err := range calls(ctx) {
				var typed *statedb.Error
				if !errors.Is(err, want) || !errors.As(err, &typed) {
					t.Errorf("%s: %v is not %v", name, err, want)
				} else if text := err.Error(); strings.Contains(text, "c4n4ry") || strings.Contains(text, fmt.Sprintf("%x", row)) || strings.Contains(text, db.address) {
					t.Errorf("%s: err = %v", name, err)
				}
			}
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		check(cancelled, context.Canceled)
		over, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		check(over, statedb.ErrUnreachable)
		check(over, context.DeadlineExceeded)
		db.exec(t, `ALTER TABLE state_rows RENAME TO c4n4ry`)
		check(t.Context(), statedb.ErrSchema)
	})
}

// An empty database can be opened several times at once, and one of a newer schema unless that is only for newer programs. One that
// is open goes on. A database that says otherwise than it has been made is an error of the calls (threats.md 563).
func TestOpening(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		var opens sync.WaitGroup
		for n := range 6 {
			opens.Go(func() {
				store, err := db.store(t)
				if err != nil {
					t.Error(err)
					return
				}
				defer store.Close()
				_, taken, err := store.Acquire(t.Context(), id(fmt.Sprint(n)), 0, time.Hour)
				is(t, true)(taken, err)
			})
		}
		opens.Wait()
		db.exec(t, `INSERT INTO state_migrations (version_id, is_applied) VALUES (1000, true)`)
		store := db.open(t)
		db.exec(t, `UPDATE state_migrations SET oldest = 999`)
		get(t, store, id("0"))
		if _, err := db.store(t); !errors.Is(err, statedb.ErrSchema) || !strings.Contains(err.Error(), "they have to know schema 999, and this program knows those up to ") {
			t.Errorf("err = %v", err)
		}
		db.exec(t, `UPDATE state_migrations SET oldest = 1`)
		db.exec(t, `ALTER TABLE state_rows DROP COLUMN leased`)
		store, err := db.store(t)
		if err == nil {
			defer store.Close()
			_, _, err = store.Acquire(t.Context(), id("new"), 0, time.Hour)
		}
		if !errors.Is(err, statedb.ErrSchema) {
			t.Errorf("without a column: %v", err)
		}
	})
}

// A database has to keep what it has reported through a power cut: an intent that is lost lets a refresh token be sent twice. The
// PostgreSQL of the tests is configured otherwise, and SQLite has FULL, which is 2, for those who write (sqlite.org/pragma.html).
func TestSynchronousCommits(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		query, want := `PRAGMA synchronous`, "2"
		if db.name == "postgres" {
			query, want = `SHOW synchronous_commit`, "on"
		}
		var setting string
		if err := store.Writes().QueryRowContext(t.Context(), query).Scan(&setting); err != nil || setting != want {
			t.Errorf("%s is %q, %v", query, setting, err)
		}
	})
}

// Both stores keep what the interface promises.
func TestSuite(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres", "postgres behind a pooler"} {
		t.Run(name, func(t *testing.T) {
			var db database
			statetest.Run(t, statetest.Suite{
				New: func(t *testing.T) state.Store {
					db = empty(t, strings.Fields(name)[0])
					if strings.HasSuffix(name, "pooler") {
						db.address, db.options.Pooler = postgrestest.Pooler(t, db.address), true
					}
					return db.open(t)
				},
				Advance: func(t *testing.T, _ state.Store, d time.Duration) { db.later(t, d) },
				Sweep: func(t *testing.T, s state.Store) {
					testworld.Must(s.(statedb.Database).Sweep(t.Context(), 1000))(t)
				},
			})
		})
	}
}

const (
	// countEnv is the environment variable that makes the test binary run count.
	countEnv = "STATE_TEST_COUNT"
	workers  = 4
	turns    = 10
)

// count counts up the value of one row, as a process beside others.
func count(db database) error {
	ctx := context.Background()
	var store statedb.Database
	var err error
	if db.name == "postgres" {
		store, err = postgres.Open(ctx, db.address, postgres.Options{})
	} else {
		store, err = sqlite.Open(ctx, db.address, sqlite.Options{})
	}
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	failed := make([]error, workers)
	for n := range workers {
		all.Go(func() {
			for range turns {
				if err := countUp(ctx, store); err != nil {
					failed[n] = err
				}
			}
		})
	}
	all.Wait()
	return errors.Join(append(failed, store.Close())...)
}

// countUp waits for the lease, reads the number under it, and writes the next one.
func countUp(ctx context.Context, store state.Store) error {
	for {
		row, err := store.Get(ctx, id("number"))
		if err != nil {
			return err
		}
		lease, taken, err := store.Acquire(ctx, id("number"), row.Generation, time.Minute)
		if err != nil {
			return err
		}
		if !taken {
			if err := store.Wait(ctx, id("number"), row.Generation); err != nil {
				return err
			}
			continue
		}
		number, _ := strconv.Atoi(string(row.Value))
		ok, err := store.Put(ctx, lease, []byte(strconv.Itoa(number+1)), 0, true)
		if err == nil && !ok {
			err = errors.New("the holder of the lease may not write")
		}
		return err
	}
}

// Several processes, each with several workers, lose no update.
func TestProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		const processes = 3
		var all sync.WaitGroup
		for range processes {
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), countEnv+"="+db.name, countEnv+"_ADDRESS="+db.address)
			command.Stderr = os.Stderr
			all.Go(func() {
				if err := command.Run(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		row := get(t, store, id("number"))
		if string(row.Value) != strconv.Itoa(processes*workers*turns) {
			t.Errorf("they counted to %s", row.Value)
		}
	})
}
