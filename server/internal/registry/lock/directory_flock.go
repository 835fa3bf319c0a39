//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package lock

import (
	"errors"
	"os"
	"syscall"
)

// lockDirectory waits until no other process has locked a directory, and locks it until unlock or its own end.
func lockDirectory(dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.ENOLCK) { // some file systems have no locks
		_ = file.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return func() { _ = file.Close() }, nil
}
