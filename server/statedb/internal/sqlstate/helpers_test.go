package sqlstate_test

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(countEnv); name != "" {
		if err := count(database{name: name, address: os.Getenv(countEnv + "_ADDRESS")}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(postgrestest.Main(m))
}

// database is a database of SQLite or PostgreSQL.
type database struct {
	name    string
	address string
	raw     *sql.DB // for statements that a store does not have
	options postgres.Options
}

// onBoth runs a test with an empty SQLite database, and with an empty PostgreSQL database.
func onBoth(t *testing.T, test func(t *testing.T, db database)) {
	t.Helper()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) { test(t, empty(t, name)) })
	}
}

func empty(t testing.TB, name string) database {
	t.Helper()
	db := database{name: name}
	driver := "sqlite"
	if name == "postgres" {
		db.address, driver = postgrestest.Database(t), "pgx"
	} else {
		db.address = filepath.Join(t.TempDir(), "state.db")
	}
	db.raw = testworld.Must(sql.Open(driver, db.address))(t)
	t.Cleanup(func() { _ = db.raw.Close() })
	return db
}

func (db database) open(t testing.TB) statedb.Database {
	t.Helper()
	store := testworld.Must(db.store(t))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (db database) store(t testing.TB) (statedb.Database, error) {
	if db.name == "postgres" {
		return postgres.Open(t.Context(), db.address, db.options)
	}
	return sqlite.Open(t.Context(), db.address, sqlite.Options{})
}

func (db database) exec(t testing.TB, statement string, arguments ...any) {
	t.Helper()
	testworld.Must(db.raw.ExecContext(t.Context(), statement, arguments...))(t)
}

// later moves all times of the rows back, as if time had passed.
func (db database) later(t testing.TB, d time.Duration) {
	t.Helper()
	db.exec(t, `UPDATE state_rows SET written = written - $1, expires = expires - $1, leased = leased - $1`, d.Microseconds())
}

func id(name string) state.ID { return sha256.Sum256([]byte(name)) }

func get(t testing.TB, store state.Store, id state.ID) state.Row {
	t.Helper()
	return testworld.Must(store.Get(t.Context(), id))(t)
}

// acquire takes the lease of a row as it is.
func acquire(t testing.TB, store state.Store, id state.ID, d time.Duration) state.Lease {
	t.Helper()
	lease, taken, err := store.Acquire(t.Context(), id, get(t, store, id).Generation, d)
	if err != nil || !taken {
		t.Fatalf("taken: %t, %v", taken, err)
	}
	return lease
}

// put writes a value and ends the lease.
func put(t testing.TB, store state.Store, lease state.Lease, value string, expires time.Duration) {
	t.Helper()
	if ok, err := store.Put(t.Context(), lease, []byte(value), expires, true); err != nil || !ok {
		t.Fatalf("written: %t, %v", ok, err)
	}
}

// is fails unless a call did or did not do what it is for.
func is(t testing.TB, want bool) func(ok bool, err error) {
	t.Helper()
	return func(ok bool, err error) {
		t.Helper()
		if err != nil || ok != want {
			t.Errorf("it is %t, not %t; %v", ok, want, err)
		}
	}
}
