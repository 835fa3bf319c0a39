package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
)

// Files name a certificate with its chain, and its key, PEM each.
type Files struct{ Cert, Key string }

// Certificate is what callers see of a server. It is read again when its files have changed: who renews it need not tell.
// A pair that cannot be used leaves the one before in use.
type Certificate struct {
	Logger *slog.Logger

	mu      sync.Mutex
	files   Files
	seen    [2]os.FileInfo // the files as they were when current was read
	failure string         // that has been told of
	current *tls.Certificate
}

// Config is that of the callers' listener. HTTP/2 is added where it is served.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// Use takes files, or other ones. They are not taken when they are no pair.
func (c *Certificate) Use(files Files) error {
	pair, seen, err := readPair(files)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files, c.seen, c.current, c.failure = files, seen, pair, ""
	return nil
}

// get is tls.Config.GetCertificate. A failure is tried again at the next connection: certificate and key are replaced one
// after the other, and between the two they are no pair.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen, err := stat(c.files); err == nil && same(seen, c.seen) {
		return c.current, nil
	}
	pair, seen, err := readPair(c.files)
	if err != nil {
		if c.failure != err.Error() {
			c.failure = err.Error()
			c.Logger.Error("the certificate is not used, and the one before goes on", slog.Any("error", err))
		}
		return c.current, nil
	}
	c.seen, c.current, c.failure = seen, pair, ""
	c.Logger.LogAttrs(context.Background(), slog.LevelInfo, "the certificate is in use", slog.Time("expires", pair.Leaf.NotAfter.In(time.UTC)))
	return pair, nil
}

func stat(files Files) (all [2]os.FileInfo, err error) {
	for i, name := range []string{files.Cert, files.Key} {
		if all[i], err = os.Stat(name); err != nil {
			return all, err
		}
	}
	return all, nil
}

func same(a, b [2]os.FileInfo) bool {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}

// others are the permissions of everybody on the machine.
const others = 0o007

// readPair reads a pair, and says what its files were before: when they change while they are read, they are read again.
func readPair(files Files) (*tls.Certificate, [2]os.FileInfo, error) {
	seen, err := stat(files)
	if err != nil {
		return nil, seen, err
	}
	if mode := seen[1].Mode().Perm(); mode&others != 0 && runtime.GOOS != "windows" { // where there are no such modes
		return nil, seen, fmt.Errorf("the key %s is open to everybody on this machine (its mode is %04o): chmod o= it, and have a new one made", files.Key, mode)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, seen, fmt.Errorf("%s and %s cannot be used: %w", files.Cert, files.Key, err)
	}
	return &pair, seen, nil
}
