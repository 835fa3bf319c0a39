// Package sqlite keeps records in a file of SQLite.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keywright/keywright/server/content/internal/sqlstore"
)

// Store is a content.Store and a content.Writer. Any number of processes may have one of the same file.
type Store = sqlstore.Store

// Open opens the database in a file, or makes it, so that only this user can read it. Beside it SQLite has two more files
// while it is open, of the same name with -wal and -shm. The context is for opening only.
func Open(ctx context.Context, path string) (*Store, error) {
	store, err := open(ctx, path, maxLog)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, explain(err))
	}
	return store, nil
}

// maxLog is how many bytes the file -wal may have before it is begun anew.
const maxLog = 64 << 20

func open(ctx context.Context, path string, maxLog int64) (*Store, error) {
	if err := touch(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	writes, err := sql.Open("sqlite", source(absolute, url.Values{
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"},
		"_pragma": {
			"page_size(8192)",    // bytes, of a new file: of the usual 4096 a record of 2 kB leaves much empty
			"cache_size(-65536)", // KiB, for the indexes: ids and activities come in any order
		},
	}))
	if err != nil {
		return nil, err
	}
	writes.SetMaxOpenConns(1) // SQLite has one at a time that writes
	if err := migrate(ctx, writes); err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	reads, err := sql.Open("sqlite", source(absolute, url.Values{"_query_only": {"true"}}))
	if err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	connections := max(4, 2*runtime.GOMAXPROCS(0))
	reads.SetMaxOpenConns(connections)
	reads.SetMaxIdleConns(connections)
	return sqlstore.New(ctx, sqlstore.Config{Reads: reads, Writes: writes, BeforeWrite: func(ctx context.Context) error {
		if info, err := os.Stat(absolute + "-wal"); err == nil && info.Size() >= maxLog {
			return beginLog(ctx, writes)
		}
		return nil
	}})
}

// beginLog has SQLite begin its log anew. It does so by itself only when nobody reads at that moment: with readers that
// overlap, the log would grow without end. Readers that are slower than a second leave it for the next time.
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

// busyTimeout is how long a statement waits for another process that writes, in milliseconds.
const busyTimeout = "60000"

// touch makes the file, where there is none: SQLite would let others read it. One that is there is not even opened: to
// close it again would take away the locks that this process has on it for another store, and with them records.
func touch(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("it is a directory")
	case err == nil:
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	case err != nil:
		return errors.Unwrap(err) // which says the path, too
	}
	return file.Close()
}

// source is the name of a database for the driver.
func source(path string, options url.Values) string {
	options.Set("_busy_timeout", busyTimeout)
	options.Set("_dqs", "false")
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String()
}

// migrate tries more than once, as another process that makes the same database at the same time makes it fail.
func migrate(ctx context.Context, db *sql.DB) error {
	var err error
	for range 5 {
		if err = sqlstore.Migrate(ctx, db, sqlstore.SQLite); err == nil || errors.Is(err, sqlstore.ErrNewer) {
			break
		}
	}
	return err
}

// explain adds what SQLite does not say.
func explain(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return errors.New("the file is not a database of SQLite")
	}
	return err
}
