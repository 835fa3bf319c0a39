// Package files reads files and bodies within bounds, and replaces files as a whole.
package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadAll reads r to its end, or one byte more than limit, by which the caller sees that there is too much.
func ReadAll[N int | int64](r io.Reader, limit N) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(limit)+1))
}

// Read is [ReadAll] for a file. Opening a pipe blocks until its other end is opened, so a caller that wants none looks first.
func Read[N int | int64](name string, limit N) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(file, limit)
}

// ErrNotRegular is returned by [ReadRegular] for what is no regular file.
var ErrNotRegular = errors.New("it is no regular file")

// ReadRegular is [Read] for a regular file. It opens no other one, because opening a pipe blocks until its other end is opened.
func ReadRegular[N int | int64](name string, limit N) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	return Read(name, limit)
}

// Replace replaces a file by one with this content and mode, so that no reader sees a part of it.
func Replace(name string, content []byte, mode fs.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // not there any more if all went well
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
