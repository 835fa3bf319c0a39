package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// Errors contain neither the password nor a part of the URL that may be one.
func TestErrorsHaveNoPassword(t *testing.T) {
	const canary = "c4n4ry"
	server, _ := url.Parse(postgrestest.Database(t))
	socket := server.Query().Get("host")
	for name, address := range map[string]string{
		"nobody listens":         "postgres://user:" + canary + "@127.0.0.1:1/db",
		"password in parameters": "postgres://user@127.0.0.1:1/db?password=" + canary,
		"unknown database":       "postgres://test:" + canary + "@/" + "missing?host=" + socket,
		"unknown user":           "postgres://nobody:" + canary + "@/postgres?host=" + socket,
		"a slash in it":          "postgres://user:a/" + canary + "@host/db",
		"a slash after digits":   "postgres://user:1/" + canary + "@127.0.0.1:1/db",
		"an at in it":            "postgres://user:a@" + canary + "@127.0.0.1:1/db",
		"without slashes":        "postgres:" + canary,
		"an upper case scheme":   "Postgres://user:a " + canary + "@127.0.0.1:1/db",
		"a percent in it":        "postgres://user:%" + canary + "%zz@host/db",
		"a wrong port":           "postgres://user:" + canary + "@host:port/db",
		"too large a port":       "postgres://user:" + canary + "@host:99999/db",
		"a wrong parameter":      "postgres://user:" + canary + "@host/db?sslmode=wrong",
		"a missing file":         "postgres://user:" + canary + "@host/db?sslrootcert=/missing&sslmode=verify-full",
		"both":                   "postgres://user@host:99999/db?password=" + canary + "&sslpassword=" + canary,
		"another scheme":         "mysql://user:" + canary + "@host/db",
		"words":                  "host=localhost password=" + canary,
		"nothing":                "",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		store, err := postgres.Open(ctx, address, postgres.Options{})
		cancel()
		if err == nil {
			_ = store.Close()
			t.Errorf("%s: it is open", name)
			continue
		}
		if strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "PostgreSQL") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func exec(t *testing.T, address string, statements ...string) {
	t.Helper()
	db := testworld.Must(sql.Open("pgx", address))(t)
	defer db.Close()
	for _, statement := range statements {
		testworld.Must(db.ExecContext(t.Context(), statement))(t)
	}
}

func TestOpenErrors(t *testing.T) {
	newer := postgrestest.Database(t)
	store := testworld.Must(postgres.Open(t.Context(), newer, postgres.Options{}))(t)
	_ = store.Close()
	exec(t, newer, `INSERT INTO content_migrations (version_id, is_applied, oldest) VALUES (1000, true, 1000)`)
	latin, _ := url.Parse(newer)
	latin.Path = "/latin"
	exec(t, newer, `CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`)
	for address, want := range map[string]string{newer: "use a newer program", latin.String(): "ENCODING 'UTF8'"} {
		testworld.WantError(t, "", testworld.ErrorOf(postgres.Open(t.Context(), address, postgres.Options{})), want)
	}
}

// A user with read permission only can open and read a database.
func TestAUserWhoMayOnlyRead(t *testing.T) {
	address := postgrestest.Database(t)
	store := testworld.Must(postgres.Open(t.Context(), address, postgres.Options{}))(t)
	defer store.Close()
	update := []content.Record{{ProductUpdate: &content.ProductUpdate{ID: "u"}}}
	testworld.Check(t, store.Write(t.Context(), update))
	exec(t, address, `CREATE ROLE reader LOGIN`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`)
	u, _ := url.Parse(address)
	u.User = url.User("reader")
	reader := testworld.Must(postgres.Open(t.Context(), u.String(), postgres.Options{}))(t)
	defer reader.Close()
	testworld.Must(reader.ProductUpdate(t.Context(), "u", content.Everybody))(t)
	if err := reader.Write(t.Context(), update); err == nil {
		t.Error("it writes")
	}
}

// Statements run to their end without their callers: a cancelled statement closes its connection (threats.md 49).
func TestCallerWhoGoesAway(t *testing.T) {
	address := postgrestest.Database(t)
	store := testworld.Must(postgres.Open(t.Context(), address, postgres.Options{}))(t)
	defer store.Close()
	db := testworld.Must(sql.Open("pgx", address))(t)
	defer db.Close()
	lock := testworld.Must(db.BeginTx(t.Context(), nil))(t)
	defer func() { _ = lock.Rollback() }()
	testworld.Must(lock.ExecContext(t.Context(), `LOCK TABLE articles, product_updates, replies, moderators IN ACCESS EXCLUSIVE MODE`))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := []func() error{
		func() error { _, err := store.Articles(ctx, 0, 10); return err },
		func() error { _, err := store.ProductUpdate(ctx, "1", content.Everybody); return err },
		func() error { _, err := store.Reply(ctx, "1", "1", content.Everybody); return err },
		func() error { _, err := store.Moderator(ctx, "1"); return err },
	}
	ended := make(chan error, len(reads))
	for _, read := range reads {
		go func() { ended <- read() }()
	}
	for waiting := 0; waiting < len(reads); {
		testworld.Check(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
	}
	cancel()
	testworld.Check(t, lock.Commit())
	for range reads {
		if err := <-ended; err != nil && !errors.Is(err, content.ErrNotFound) {
			t.Errorf("a statement did not go on to its end: %v", err)
		}
	}
	if _, err := store.Articles(ctx, 0, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("for one who had gone away it was begun: %v", err)
	}
}
