// Package sqlite keeps records in a file of SQLite.
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
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keywright/keywright/content/internal/sqlstore"
)

// Store is a content.Store and a content.Writer. Any number of processes may have one of the same file.
type Store = sqlstore.Store

// Open opens the database in a file, or makes it, so that only this user can read it. Beside it SQLite has two more files
// while it is open, of the same name with -wal and -shm. The context is for opening only.
func Open(ctx context.Context, path string) (*Store, error) {
	store, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, explain(err))
	}
	return store, nil
}

func open(ctx context.Context, path string) (*Store, error) {
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
	return sqlstore.New(ctx, sqlstore.Config{Reads: reads, Writes: writes})
}

// touch makes the file, where there is none: SQLite would let others read it.
func touch(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a directory")
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return errors.Unwrap(err) // which says the path, too
	}
	return file.Close()
}

// source is the name of a database for the driver, which waits for another process that writes, for a minute.
func source(path string, options url.Values) string {
	options.Set("_busy_timeout", "60000")
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
