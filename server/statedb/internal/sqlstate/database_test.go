package sqlstate_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
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
