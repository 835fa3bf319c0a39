// Package sqlitefile has what the stores in files of SQLite share: how a file is made, and how it is opened.
package sqlitefile

import (
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Touch creates the file with mode 0600 if it does not exist, because SQLite would create one that others can read. It
// does not open an existing file: closing it would release this process's locks for another store, and lose records.
func Touch(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file in it")
	case err == nil:
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("its directory does not exist: make it first, or name a file in another one")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("its directory may not be written by this user: change that, or name a file in another one")
	case err != nil:
		return errors.Unwrap(err) // Open's error contains the path already
	}
	return file.Close()
}

// Open returns the database in the file of an absolute path, with this many connections at most. It makes none yet. options are those of
// the driver, modernc.org/sqlite, which the caller has to link.
func Open(path string, connections int, options url.Values) *sql.DB {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // path begins with a drive letter
	}
	options.Set("_dqs", "false")
	source := url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}
	db, _ := sql.Open("sqlite", source.String()) // it fails only without a driver
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}
