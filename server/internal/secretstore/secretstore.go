// Package secretstore has stores of secrets for services: a directory, a file encrypted with age, HashiCorp Vault or
// OpenBao; and a short memory for what a slow store has answered. Each is a [host.Secrets]; [host.FirstOf] puts several
// in order.
//
// A name that a store does not have is [host.ErrSecretNotFound]. Everything else, a store that is down or a file that is
// bad, is another error, so that an older value of another store does not count instead. No error holds a secret, a
// token, or what a server has answered.
package secretstore

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/keywright/keywright/host"
)

func notAName(name string) error {
	return fmt.Errorf("%w: %q is not a secret's name", host.ErrSecretNotFound, host.Printable(name))
}

// readFile reads a file that must be small. What it says of the file begins with what the file is.
func readFile(name, what string, most int64) ([]byte, error) {
	return readOpen(name, what, most, func(os.FileMode) error { return nil })
}

// readPrivate is readFile for a file that not everybody may read. A group may: Kubernetes mounts files so for programs that
// are not root.
func readPrivate(name, what string, most int64) ([]byte, error) {
	return readOpen(name, what, most, func(mode os.FileMode) error {
		if mode.Perm()&0o027 != 0 && runtime.GOOS != "windows" { // which has no such modes
			return fmt.Errorf("%s %q is open to others (mode %04o): chmod g-w,o= it", what, name, mode.Perm())
		}
		return nil
	})
}

func readOpen(name, what string, most int64, allowed func(os.FileMode) error) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened, which waits when it is a pipe
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %q is not a regular file", what, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil { // of the file that is read, whatever has become of the name
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if err := allowed(info.Mode()); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%s %q has more than %d bytes", what, name, most)
	}
	if len(content) == 0 {
		return nil, fmt.Errorf("%s %q is empty", what, name)
	}
	return content, nil
}
