// Package sqlite stores state in a file of SQLite. It is for one node: processes on one machine may share the file.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"
	"runtime"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/sqlitefile"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// Options are the options of a store.
type Options struct {
	// Clock is the clock of the store. The default is [time.Now]. Processes that share a file need one clock.
	Clock func() time.Time
	// Logger gets the failures in the background. If it is nil, they are not logged.
	Logger *slog.Logger
	// Observe may be nil.
	Observe statedb.Observe
}

// Open opens the database in the file path. If the file does not exist, Open creates it with mode 0600. While the database is open, SQLite
// has two more files with the same name and the suffixes -wal and -shm. A change is on the disk when it is reported. ctx limits only the
// call of Open. It returns an error if the file cannot be opened, is not an SQLite database or is for newer programs.
func Open(ctx context.Context, path string, options Options) (statedb.Database, error) {
	return open(ctx, path, options, sqlstate.Usual)
}

func open(ctx context.Context, path string, options Options, times sqlstate.Times) (statedb.Database, error) {
	const busyTimeout = "5000" // the time in milliseconds that a statement waits for a writer in another process
	if err := sqlitefile.Touch(path); err != nil {
		return nil, fmt.Errorf("state: open the database %s: %w", path, err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	writes := sqlitefile.Open(absolute, 1, url.Values{ // SQLite allows one writer at a time
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {busyTimeout},
	})
	if err := migrate.Up(ctx, writes, migrate.SQLite, sqlstate.Schema); err != nil {
		_ = writes.Close()
		return nil, fmt.Errorf("%s: %w", path, sqlstate.Fault(ctx, "open the database", err, explain))
	}
	reads := sqlitefile.Open(absolute, max(4, runtime.GOMAXPROCS(0)), url.Values{"_query_only": {"true"}, "_busy_timeout": {busyTimeout}})
	store, err := newStore(ctx, reads, writes, options, times)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return store, nil
}

func newStore(ctx context.Context, reads, writes *sql.DB, options Options, times sqlstate.Times) (*sqlstate.Store, error) {
	clock := options.Clock
	if clock == nil {
		clock = time.Now
	}
	return sqlstate.New(ctx, sqlstate.Config{
		Reads: reads, Writes: writes, Dialect: migrate.SQLite, Now: `$1`, Clock: clock, Changed: `1`, Prepare: true,
		Explain: explain, Logger: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)), Times: times, Observe: options.Observe,
	})
}

// OpenMemory opens an empty database in the memory of the process, which ends with it.
func OpenMemory(ctx context.Context, options Options) (statedb.Database, error) {
	db, _ := sql.Open("sqlite", ":memory:") // it fails only without a driver
	db.SetMaxOpenConns(1)                   // another connection would have a database of its own
	if err := migrate.Up(ctx, db, migrate.SQLite, sqlstate.Schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newStore(ctx, db, db, options, sqlstate.Usual)
}

// explain returns words for an error of SQLite, and its kind.
func explain(err error) (detail string, kind error) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		if errors.Is(err, fs.ErrNotExist) {
			return "there is no such file", statedb.ErrUnreachable
		}
		return "the store is closed, or the file cannot be used", statedb.ErrUnreachable
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB:
		return "the file is not a database of SQLite", statedb.ErrSchema
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return "a table or a column is missing, or is another", statedb.ErrSchema
	case sqlite3.SQLITE_CORRUPT:
		return "the file is damaged: restore it from a copy", statedb.ErrSchema
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return "the file or its directory may not be written", statedb.ErrRefused
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process writes for too long", statedb.ErrUnreachable
	case sqlite3.SQLITE_FULL:
		return "the disk is full", statedb.ErrUnreachable
	case sqlite3.SQLITE_CANTOPEN:
		return "the file, or one that SQLite makes beside it, cannot be opened: put it into a directory that exists and that this user may write, on a disk that is not read-only", statedb.ErrUnreachable
	case sqlite3.SQLITE_IOERR:
		return "the disk fails: look at the system's log", statedb.ErrUnreachable
	}
	return fmt.Sprintf("code %d of SQLite", e.Code()), statedb.ErrUnreachable
}
