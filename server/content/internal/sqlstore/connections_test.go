package sqlstore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/content/postgres"
)

// The connections for reading cannot change the database with any statement.
func TestReadersDoNotWrite(t *testing.T) {
	store := empty(t, "sqlite").open(t)
	write(t, store, content.Record{Moderator: &content.Moderator{ID: "m"}})
	if _, err := store.Reads().ExecContext(t.Context(), `DELETE FROM moderators`); err == nil {
		t.Error("a reader may write")
	}
	if ok, err := store.Moderator(t.Context(), "m"); !ok || err != nil {
		t.Errorf("ok = %t, err = %v", ok, err)
	}
}

// The URL cannot set the isolation level. The counts of chunks are right only if a writer sees what the one before it
// wrote.
func TestTheURLDoesNotSetTheIsolationLevel(t *testing.T) {
	address := testworld.Must(url.Parse(empty(t, "postgres").address))(t)
	query := address.Query()
	query.Set("default_transaction_isolation", "repeatable read")
	address.RawQuery = query.Encode()
	store := testworld.Must(postgres.Open(t.Context(), address.String(), postgres.Options{}))(t)
	defer store.Close()
	var level string
	if err := store.(*sqlstore.Store).OneConnection().QueryRowContext(t.Context(), `SHOW transaction_isolation`).Scan(&level); err != nil || level != "read committed" {
		t.Errorf("transactions are %q, %v", level, err)
	}
}

// While another process writes, a writer waits, also with records that the other one does not touch.
func TestWriterWaits(t *testing.T) {
	db := empty(t, "postgres")
	address := testworld.Must(url.Parse(db.address))(t)
	query := address.Query()
	query.Set("lock_timeout", "1") // in milliseconds: the writer fails instead of waiting
	address.RawQuery = query.Encode()
	store := database{name: db.name, address: address.String()}.open(t)
	other := testworld.Must(db.raw.BeginTx(t.Context(), nil))(t)
	testworld.Must(other.ExecContext(t.Context(), `UPDATE article_chunks SET articles = articles`))(t)
	records := []content.Record{{Moderator: &content.Moderator{ID: "m"}}}
	if err := store.Write(t.Context(), records); err == nil || !strings.Contains(err.Error(), "55P03") {
		t.Errorf("the error is %v", err)
	}
	testworld.Check(t, other.Rollback())
	write(t, store, records...)
}

// Close writes the log into the database file and removes it.
func TestClosedStoreFile(t *testing.T) {
	db := empty(t, "sqlite")
	store := db.open(t)
	write(t, store, article("a", "2026-01-01T00:00:00+00:00"))
	if _, err := os.Stat(db.address + "-wal"); err != nil {
		t.Fatalf("while it is open: %v", err)
	}
	testworld.Check(t, store.Close())
	if files, _ := filepath.Glob(db.address + "*"); len(files) != 1 {
		t.Errorf("there are %v", files)
	}
}

// While the file of SQLite is away, errors say so, and no other one is made in its place. When it is back, it is read again:
// threats.md 192.
func TestMissingFile(t *testing.T) {
	db := empty(t, "sqlite")
	store := db.open(t)
	write(t, store, article("a", ""))
	store.Reads().SetMaxIdleConns(0) // an open connection keeps the file
	path, aside := filepath.Dir(db.address), t.TempDir()+"/aside"
	testworld.Check(t, os.Rename(path, aside))
	testworld.Check(t, os.Mkdir(path, 0o700))
	if _, err := store.Articles(t.Context(), 0, 1); !errors.Is(err, content.ErrUnavailable) {
		t.Errorf("while it is away: %v", err)
	}
	if _, err := store.Reply(t.Context(), "a", "1", content.Everybody); !errors.Is(err, content.ErrUnavailable) {
		t.Errorf("while it is away: %v", err)
	}
	if files, err := os.ReadDir(path); err != nil || len(files) > 0 {
		t.Fatalf("files = %v, err = %v", files, err)
	}
	testworld.Check(t, errors.Join(os.Remove(path), os.Rename(aside, path)))
	if got := ids(t, store, 0, 10); got != "a" {
		t.Errorf("when it is back, the articles are %q", got)
	}
}
