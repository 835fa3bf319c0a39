// Package sqlite stores records in an SQLite database.
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
	"slices"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/internal/sqlstore"
	"github.com/keywright/keywright/server/internal/migrate"
	"github.com/keywright/keywright/server/internal/sqlitefile"
)

// Open opens the database in the file path. If the file does not exist, Open creates it with mode 0600. While the
// database is open, SQLite has two more files with the same name and the suffixes -wal and -shm. ctx limits only the
// call of Open. It returns an error if the file cannot be opened, is not an SQLite database or is for newer programs.
func Open(ctx context.Context, path string) (content.Database, error) {
	store, err := open(ctx, path, maxLog)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, explain(err))
	}
	return store, nil
}

// OpenToRead is like [Open] for a database that may be one that can only be read: on a disk that is mounted read-only, or because this
// user may not write the file or its directory. It creates no file. If nobody can write the database, its Write returns an error. Where
// SQLite cannot have its files beside the database, nothing may write the database meanwhile: as soon as it has changed, all reads
// return errors that wrap [content.ErrUnavailable].
func OpenToRead(ctx context.Context, path string) (content.Database, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	store, err := open(ctx, path, maxLog)
	if code := codeOf(err); code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN {
		// Where SQLite cannot have its files beside the database, it is taken for one that does not change.
		if store, err = openAs(ctx, path, false); err != nil {
			store, err = openAs(ctx, path, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, explain(err))
	}
	return store, nil
}

// openAs opens a database to read it, as one that others may write or as an immutable one.
func openAs(ctx context.Context, path string, immutable bool) (*sqlstore.Store, error) {
	f, err := fileOf(path)
	if err != nil {
		return nil, err
	}
	options := url.Values{"mode": {"ro"}}
	if f.immutable = immutable; immutable {
		if f.hasLog() {
			return nil, errors.New("it was being written when it was last open, and cannot be read without its log: open it once where it can be written")
		}
		options.Set("immutable", "1")
	}
	reads := openReads(f.path, options)
	if err := migrate.Check(ctx, reads, migrate.SQLite, sqlstore.Schema); err != nil {
		return nil, errors.Join(err, reads.Close())
	}
	return sqlstore.New(ctx, sqlstore.Config{Reads: reads, Away: away, Present: f.present})
}

func openReads(absolute string, options url.Values) *sql.DB {
	options.Set("_query_only", "true")
	return connect(absolute, max(4, 2*runtime.GOMAXPROCS(0)), options)
}

// file is the file of a database as it was when it was opened.
type file struct {
	// path is absolute.
	path string
	info os.FileInfo
	// immutable reports whether nothing may write the file.
	immutable bool
}

func fileOf(path string) (*file, error) {
	absolute, errPath := filepath.Abs(path)
	info, err := os.Stat(absolute)
	return &file{path: absolute, info: info}, errors.Join(errPath, err)
}

func (f *file) hasLog() bool {
	info, err := os.Stat(f.path + "-wal")
	return err == nil && info.Size() > 0
}

// present returns an error if the file is gone, was replaced by another one, or has changed although it must not. Connections that are
// open would still read the old file, and new ones the new file with the log of the old one, which harms it.
func (f *file) present() error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("the file of the database is gone: put it back, or stop this process and start it with another one")
	case err != nil:
		return err
	case !os.SameFile(info, f.info):
		return errors.New("the file of the database was replaced while it was open: stop all processes that have it open, put the file there without the files -wal and -shm, and start them again")
	case f.immutable && (info.Size() != f.info.Size() || !info.ModTime().Equal(f.info.ModTime()) || f.hasLog()):
		return errors.New("the database is being written, and this process may not read the log of it: start it again once the writer has ended, or let it write the directory")
	}
	return nil
}

// maxLog is the size in bytes of the file -wal from which it is truncated before the next write.
const maxLog = 64 << 20

func open(ctx context.Context, path string, maxLog int64) (*sqlstore.Store, error) {
	if err := sqlitefile.Touch(path); err != nil {
		return nil, err
	}
	f, err := fileOf(path)
	if err != nil {
		return nil, err
	}
	writes := connect(f.path, 1, url.Values{ // SQLite allows one writer at a time
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"},
		"_pragma": {
			"page_size(8192)",    // bytes, for new files: records of 2 kB would leave much of the usual 4096 empty
			"secure_delete(ON)",  // what was removed is overwritten
			"cache_size(-65536)", // KiB, for the indexes, since ids and activities come in any order
		},
	})
	if err := migrate.Up(ctx, writes, migrate.SQLite, sqlstore.Schema); err != nil {
		return nil, errors.Join(err, writes.Close())
	}
	reads := openReads(f.path, url.Values{})
	return sqlstore.New(ctx, sqlstore.Config{Reads: reads, Writes: writes, Dialect: migrate.SQLite, Away: away, Present: f.present, BeforeWrite: func(ctx context.Context) error {
		if info, err := os.Stat(f.path + "-wal"); err == nil && info.Size() >= maxLog {
			return beginLog(ctx, writes)
		}
		return nil
	}})
}

// beginLog truncates SQLite's log, which would grow without bound with overlapping readers. It waits a second for
// readers. If they take longer, the next write tries again.
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

// connect returns the database in a file. No connection creates the file again once it is away.
func connect(path string, connections int, options url.Values) *sql.DB {
	if !options.Has("mode") {
		options.Set("mode", "rw")
	}
	options.Set("_busy_timeout", busyTimeout)
	return sqlitefile.Open(path, connections, options)
}

// codeOf returns the primary result code of an error of SQLite, or SQLITE_OK for another error.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}

func explain(err error) error {
	if codeOf(err) == sqlite3.SQLITE_NOTADB {
		return errors.New("the file is not a database of SQLite")
	}
	return err
}

// away reports whether the file cannot be used at the moment: it cannot be opened or read, or another process locks it.
func away(err error) bool {
	return slices.Contains([]int{sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}, codeOf(err))
}
