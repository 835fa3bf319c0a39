// Package sqlite stores records in an SQLite database.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/internal/sqlitefile"
)

// Open opens the database in the file path. If the file does not exist, Open creates it with mode 0600. While the
// database is open, SQLite has two more files with the same name and the suffixes -wal and -shm. ctx limits only the
// call of Open. It returns an error if the file cannot be opened, is not an SQLite database or has a newer schema.
func Open(ctx context.Context, path string) (content.Database, error) {
	store, err := open(ctx, path, maxLog)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, explain(err))
	}
	return store, nil
}

// maxLog is the size in bytes of the file -wal from which it is truncated before the next write.
const maxLog = 64 << 20

func open(ctx context.Context, path string, maxLog int64) (*sqlstore.Store, error) {
	if err := sqlitefile.Touch(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	writes, err := sql.Open("sqlite", source(absolute, url.Values{
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"},
		"_pragma": {
			"page_size(8192)",    // bytes, for new files: records of 2 kB would leave much of the usual 4096 empty
			"secure_delete(ON)",  // what was removed is overwritten
			"cache_size(-65536)", // KiB, for the indexes, since ids and activities come in any order
		},
	}))
	if err != nil {
		return nil, err
	}
	writes.SetMaxOpenConns(1) // SQLite allows one writer at a time
	if err := sqlstore.Migrate(ctx, writes, sqlstore.SQLite); err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	reads, err := sql.Open("sqlite", source(absolute, url.Values{"_query_only": {"true"}}))
	if err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	connections := max(4, 2*runtime.GOMAXPROCS(0))
	reads.SetMaxOpenConns(connections)
	reads.SetMaxIdleConns(connections)
	return sqlstore.New(ctx, sqlstore.Config{Reads: reads, Writes: writes, Away: away, BeforeWrite: func(ctx context.Context) error {
		if info, err := os.Stat(absolute + "-wal"); err == nil && info.Size() >= maxLog {
			return beginLog(ctx, writes)
		}
		return nil
	}})
}

// beginLog truncates SQLite's log. SQLite itself does so only at a moment without readers, so with overlapping readers
// the log would grow without bound. beginLog waits a second for readers. If they take longer, the next write tries
// again.
func beginLog(ctx context.Context, db *sql.DB) error {
	connection, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	for _, pragma := range []string{"busy_timeout(1000)", "wal_checkpoint(TRUNCATE)", "busy_timeout(" + busyTimeout + ")"} {
		if _, err := connection.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return fmt.Errorf("begin the log anew: %w", err)
		}
	}
	return nil
}

// busyTimeout is the time in milliseconds that a statement waits for a writer in another process.
const busyTimeout = "60000"

// source returns the data source name for the driver. With it, no connection creates the file again once it is away.
func source(path string, options url.Values) string {
	options.Set("mode", "rw")
	options.Set("_busy_timeout", busyTimeout)
	options.Set("_dqs", "false")
	return sqlitefile.Source(path, options)
}

// explain replaces SQLite's error for a file that is not a database by a clear one.
func explain(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return errors.New("the file is not a database of SQLite")
	}
	return err
}

// away reports whether an error means that the file cannot be used at the moment: it cannot be opened, its disk fails, or
// another process keeps it locked.
func away(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return true
	}
	return false
}
