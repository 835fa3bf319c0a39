package sqlstate_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// A dump of the database has the ids and values that the store was handed, and neither the name of a row nor its text, in
// any encoding.
func TestADumpHasNoCanary(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		key, name, text := make([]byte, 32), []byte(rand.Text()), []byte(rand.Text())
		_, _ = rand.Read(key)
		mac := hmac.New(sha256.New, key)
		mac.Write(name)
		row := state.ID(mac.Sum(nil))
		block := testworld.Must(aes.NewCipher(key))(t)
		aead := testworld.Must(cipher.NewGCMWithRandomNonce(block))(t)
		sealed := aead.Seal(nil, nil, text, row[:])
		lease := acquire(t, store, row, time.Hour)
		put(t, store, lease, string(sealed), time.Hour)
		dump := db.dump(t)
		var hidden testworld.Canaries
		for what, secret := range map[string][]byte{"the name": name, "the text": text, "the key": key} {
			hidden.Hide(what, string(secret))
		}
		hidden.Out("the dump", dump)
		for _, leak := range hidden.Leaks() {
			t.Error(leak)
		}
		for what, there := range map[string][]byte{"the id": row[:], "the value": sealed} {
			if !strings.Contains(dump, string(there)) {
				t.Errorf("%s is not in the dump: it is a dump of something else", what)
			}
		}
	})
}

// dump returns the files of a database of SQLite, or a dump of PostgreSQL.
func (db database) dump(t *testing.T) string {
	t.Helper()
	if db.name == "postgres" {
		return testworld.Must(postgrestest.Dump(t.Context(), db.address))(t)
	}
	var all strings.Builder
	files, _ := filepath.Glob(db.address + "*")
	for _, file := range files {
		content := testworld.Must(os.ReadFile(file))(t)
		all.Write(content)
	}
	return all.String()
}

// Each statement finds its row by the primary key, in a table that was empty when the store began, and has been filled.
func TestPlans(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		acquire(t, store, id("a"), time.Hour)
		plans := func() {
			t.Helper()
			byID, sweep := store.Statements()
			byID[sweep] = 3
			for statement, parameters := range byID {
				checkPlan(t, db, store, statement, parameters, statement == sweep)
			}
		}
		plans()
		if db.name == "postgres" {
			db.exec(t, `INSERT INTO state_rows (id, fence, generation, expires) SELECT sha256(n::text::bytea), 1, 1, n FROM generate_series(1, 20000) AS n`)
			plans()
			db.exec(t, `ANALYZE state_rows`)
			plans()
		}
	})
}

func checkPlan(t *testing.T, db database, store *sqlstate.Store, statement string, parameters int, sweep bool) {
	t.Helper()
	if strings.HasPrefix(statement, "INSERT") { // it looks for nothing
		return
	}
	connection := testworld.Must(store.Reads().Conn(t.Context()))(t)
	defer connection.Close()
	explain, byKey, byIndex, all := "EXPLAIN QUERY PLAN "+statement, "sqlite_autoindex_state_rows_1 (id", "INDEX state_rows_expires (expires<", "SCAN state_rows"
	arguments := make([]any, parameters)
	if db.name == "postgres" {
		byKey, byIndex, all = "using state_rows_pkey", "Index Cond: (expires < ", "Seq Scan on state_rows"
		testworld.Must(connection.ExecContext(t.Context(), "PREPARE it AS "+statement))(t)
		defer func() { _, _ = connection.ExecContext(t.Context(), "DEALLOCATE it") }()
		explain = "EXPLAIN EXECUTE it(NULL" + strings.Repeat(", NULL", parameters-1) + ")" // the plan for any arguments
		arguments = nil
	}
	rows := testworld.Must(connection.QueryContext(t.Context(), explain, arguments...))(t)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		columns, _ := rows.Columns()
		line := make([]any, len(columns))
		for n := range line {
			line[n] = new(any)
		}
		testworld.Check(t, rows.Scan(line...))
		fmt.Fprintln(&plan, *line[len(line)-1].(*any))
	}
	testworld.Check(t, rows.Err())
	if text := plan.String(); !strings.Contains(text, byKey) || sweep && !strings.Contains(text, byIndex) || strings.Contains(text, all) {
		t.Errorf("statement = %s\ntext = %s", statement, text)
	}
}

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
