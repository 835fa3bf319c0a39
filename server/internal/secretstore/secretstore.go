// Package secretstore provides stores of secrets for services: a directory, a file encrypted with age, and HashiCorp Vault
// or OpenBao, with a cache for slow stores. Each is a [host.Secrets]. [host.FirstOf] combines several. Vault is a [host.Keys],
// too, if it is configured so.
//
// If a store does not have a name, the error is [host.ErrSecretNotFound]. Other failures, such as a store that is down or an
// invalid file, are other errors, so that an old value in another store is not used instead. No error contains a secret, a
// token, or a server's response.
package secretstore

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// checkName returns an error for a text that is no name of a secret.
func checkName(name string) error {
	if expr.ValidSecret(name) {
		return nil
	}
	return fmt.Errorf("%w: %q is not a secret's name", host.ErrSecretNotFound, host.Printable(name))
}

// readFile reads a regular file. It returns an error if the file is empty or larger than limit bytes. Errors begin with what, a
// description of the file.
func readFile(name, what string, limit int64) ([]byte, error) {
	return readOpen(name, what, limit, func(os.FileMode) error { return nil })
}

// readPrivate is like readFile, and returns an error if others may access the file or its group may write it. The group may
// read it, because Kubernetes mounts files in this way for programs that are not root.
func readPrivate(name, what string, limit int64) ([]byte, error) {
	return readOpen(name, what, limit, func(mode os.FileMode) error {
		if mode.Perm()&0o027 != 0 && runtime.GOOS != "windows" { // Windows has no such modes
			return fmt.Errorf("%s %q is open to others (mode %04o): chmod g-w,o= it", what, name, mode.Perm())
		}
		return nil
	})
}

func readOpen(name, what string, limit int64, checkMode func(os.FileMode) error) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened, because to open a pipe blocks
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
	if info, err = file.Stat(); err != nil { // the opened file: its name may lead to another one now
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if err := checkMode(info.Mode()); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", what, err)
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s %q has more than %d bytes", what, name, limit)
	}
	if len(content) == 0 {
		return nil, fmt.Errorf("%s %q is empty", what, name)
	}
	return content, nil
}
