package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/keywright/keywright/internal/files"
)

// Limits of a token, in bytes. A shorter one could be guessed by trying.
const (
	minToken = 16
	maxToken = 4 << 10
)

// worldBits is the mode bits of everybody on the machine.
const worldBits = 0o007

// tokenFile is a file with a token. It is read each time, which costs little and finds every change.
type tokenFile struct {
	path   string
	logger *slog.Logger
	mu     sync.Mutex
	// failure is the last error that was logged. It is empty if the file could be read.
	failure string
}

// expected returns the digest of the token. It logs an error that is not the one of the last time, so that nobody fills the log.
func (f *tokenFile) expected(ctx context.Context) (digest, error) {
	d, err := f.read()
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	f.mu.Lock()
	news := failure != f.failure
	f.failure = failure
	f.mu.Unlock()
	switch {
	case news && err != nil:
		f.logger.LogAttrs(ctx, slog.LevelError, "the token of a login cannot be read, and nobody gets in with it", slog.Any("error", err))
	case news:
		f.logger.LogAttrs(ctx, slog.LevelInfo, "the token of a login was read", slog.String("file", f.path))
	}
	return d, err
}

// read returns the digest of the token. Its errors do not have the token.
func (f *tokenFile) read() (digest, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return digest{}, err
	case !info.Mode().IsRegular(): // opening a pipe would block until something writes to it
		return digest{}, fmt.Errorf("%s is no regular file: put a token there", f.path)
	case info.Mode().Perm()&worldBits != 0 && runtime.GOOS != "windows": // Windows has no such modes
		return digest{}, fmt.Errorf("%s is open to everybody on this machine (its mode is %04o): chmod o= it, and make a new token", f.path, info.Mode().Perm())
	}
	content, err := files.Read(f.path, maxToken)
	if err != nil {
		return digest{}, err
	}
	token := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if err := check(token); err != nil {
		return digest{}, fmt.Errorf("%s: the token %w, such as that of `openssl rand -hex 32`", f.path, err)
	}
	return digestOf(token), nil
}

// check returns an error if a text can be no token.
func check(token string) error {
	switch {
	case len(token) < minToken:
		return fmt.Errorf("has less than %d bytes: make a random one", minToken)
	case len(token) > maxToken:
		return fmt.Errorf("has more than %d bytes: make a shorter one", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("has blanks or characters that a header cannot have: make one of letters and digits")
	}
	return nil
}
