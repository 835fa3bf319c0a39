package migrate_test

import (
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	// The drivers.
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/sqlitefile"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// files are the migrations of all programs of these tests. Those of a schema have the ones up to its number.
var files = map[string]string{
	"migrations/00001_people.sql":        "-- +goose Up\nCREATE TABLE people (id BIGINT, name TEXT);",
	"migrations/00002_oldest.sql":        "-- +goose Up\nALTER TABLE versions ADD COLUMN oldest BIGINT NOT NULL DEFAULT 1;",
	"migrations/00003_mail.sql":          "-- +goose Up\nALTER TABLE people ADD COLUMN mail TEXT;",
	"migrations/00004_phone.sql":         "-- +goose Up\nALTER TABLE people ADD COLUMN phone TEXT;",
	"migrations/contract/00003_name.sql": "UPDATE people SET mail = name;\nALTER TABLE people DROP COLUMN name;",
}

// program returns the schema of a program that knows schemas up to one.
func program(latest byte) migrate.Schema {
	fsys := fstest.MapFS{}
	for name, text := range files {
		if filepath.Base(name)[4] <= '0'+latest {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return migrate.Schema{Files: fsys, Versions: "versions", Lock: 7}
}

// onBoth runs a test with an empty database of SQLite, and of PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, db *sql.DB, dialect migrate.Dialect)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.db")
		testworld.Check(t, sqlitefile.Touch(path))
		db := sqlitefile.Open(path, 1, url.Values{"_txlock": {"immediate"}})
		defer db.Close()
		test(t, db, migrate.SQLite)
	})
	t.Run("postgres", func(t *testing.T) {
		db := testworld.Must(sql.Open("pgx", postgrestest.Database(t)))(t)
		defer db.Close()
		test(t, db, migrate.Postgres)
	})
}

// starts fails the test unless a program starts, both where it may write the database and where it may not.
func starts(t *testing.T, db *sql.DB, dialect migrate.Dialect, schema migrate.Schema) {
	t.Helper()
	testworld.Check(t, migrate.Up(t.Context(), db, dialect, schema))
	testworld.Check(t, migrate.Check(t.Context(), db, dialect, schema))
}

// hasColumn reports whether people have a column.
func hasColumn(db *sql.DB, column string) bool {
	_, err := db.Exec(`SELECT ` + column + ` FROM people`)
	return err == nil
}

// A program starts beside a newer schema until what it needs is removed, which starting does not do (threats.md 562).
func TestOlderPrograms(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, dialect migrate.Dialect) {
		testworld.Check(t, migrate.Up(t.Context(), db, dialect, program(1))) // a database from before the column oldest
		for _, latest := range []byte{2, 4, 2, 3} {
			starts(t, db, dialect, program(latest))
		}
		if !hasColumn(db, "name") || !hasColumn(db, "phone") {
			t.Error("a program that starts has removed something, or not added all")
		}
		status, err := migrate.Contract(t.Context(), db, dialect, program(4), true)
		if want := (migrate.Status{Schema: 4, Oldest: 1, Contract: 3}); status != want || err != nil || !hasColumn(db, "name") {
			t.Errorf("status = %+v, %v, want %+v", status, err, want)
		}
		for range 2 {
			status, err = migrate.Contract(t.Context(), db, dialect, program(4), false)
			if want := (migrate.Status{Schema: 4, Oldest: 3, Contract: 3}); status != want || err != nil || hasColumn(db, "name") {
				t.Errorf("status = %+v, %v, want %+v", status, err, want)
			}
		}
		starts(t, db, dialect, program(3))
		for _, err := range []error{migrate.Up(t.Context(), db, dialect, program(2)), migrate.Check(t.Context(), db, dialect, program(2))} {
			if want := "they have to know schema 3, and this program knows those up to 2"; !errors.Is(err, migrate.ErrNewer) || !strings.Contains(err.Error(), want) {
				t.Errorf("an older program: %v", err)
			}
		}
	})
}

// A migration that fails removes nothing, and older programs start as before.
func TestFailedContract(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, dialect migrate.Dialect) {
		schema := program(4)
		schema.Files.(fstest.MapFS)["migrations/contract/00004_none.sql"] = &fstest.MapFile{Data: []byte("DROP TABLE none")}
		starts(t, db, dialect, schema)
		_, err := migrate.Contract(t.Context(), db, dialect, schema, false)
		testworld.WantError(t, "a failure", err, "remove by 00004_none.sql")
		if !hasColumn(db, "name") {
			t.Error("the migration before it has removed something")
		}
		starts(t, db, dialect, program(2))
	})
}

// Nothing is removed while a program that needs it is connected to the same database (threats.md 562).
func TestContractBesideOlderPrograms(t *testing.T) {
	db := testworld.Must(sql.Open("pgx", postgrestest.Database(t)))(t)
	defer db.Close()
	second := testworld.Must(sql.Open("pgx", postgrestest.Database(t)))(t)
	defer second.Close()
	starts(t, db, migrate.Postgres, program(4))
	var older *sql.Conn
	for _, c := range []struct {
		db     *sql.DB
		latest byte
	}{{db, 2}, {db, 3}, {second, 2}} {
		connection := testworld.Must(c.db.Conn(t.Context()))(t)
		defer connection.Close()
		testworld.Must(connection.ExecContext(t.Context(), migrate.Hold(program(c.latest))))(t)
		if older == nil {
			older = connection
		}
	}
	status, err := migrate.Contract(t.Context(), db, migrate.Postgres, program(4), false)
	if want := (migrate.Status{Schema: 4, Oldest: 1, Contract: 3, Older: 1}); status != want || err != nil || !hasColumn(db, "name") {
		t.Errorf("status = %+v, %v, want %+v", status, err, want)
	}
	testworld.Must(older.ExecContext(t.Context(), `SELECT pg_advisory_unlock_all()`))(t) // as when its connection ends
	status, err = migrate.Contract(t.Context(), db, migrate.Postgres, program(4), false)
	if want := (migrate.Status{Schema: 4, Oldest: 3, Contract: 3}); status != want || err != nil || hasColumn(db, "name") {
		t.Errorf("status = %+v, %v, want %+v", status, err, want)
	}
}
