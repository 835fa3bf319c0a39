package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
)

// Files name a certificate with its chain, and its key, PEM each.
type Files struct{ Cert, Key string }

// Certificate is the certificate of a server and its key. It is read again when its files have changed: who renews it need
// not tell. A pair that cannot be used leaves the one before in use. One that has expired is used, since callers refuse it
// with a clear error, and the log says so: when it comes into use, or at the first connection after its time.
type Certificate struct {
	Logger *slog.Logger
	Clock  func() time.Time // nil is time.Now

	mu      sync.Mutex // never held while files are looked at, which may be on a disk that hangs
	current *Pair
	failure string // that was logged
	expired bool   // it was logged that the certificate has expired
}

// Pair is a certificate with its key, as its files had them.
type Pair struct {
	files Files
	seen  [2]os.FileInfo // the files when they were read
	read  *tls.Certificate

	looking sync.Mutex // held by the connection that looks at the files
}

// Config is that of the callers' listener. HTTP/2 is added where it is served.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// Use takes a pair, and follows its files from now on.
func (c *Certificate) Use(p *Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(p)
}

// NotAfter is until when the certificate is valid.
func (c *Certificate) NotAfter() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.read.Leaf.NotAfter
}

// get is tls.Config.GetCertificate. A failure is tried again at the next connection: certificate and key are replaced one
// after the other, and between the two they are no pair.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiry()
	return c.current.read, nil
}

// look reads the files when they have changed. It does nothing while another connection is at it.
func (c *Certificate) look() {
	c.mu.Lock()
	before := c.current
	c.mu.Unlock()
	if !before.looking.TryLock() {
		return
	}
	defer before.looking.Unlock()
	if seen, err := stat(before.files); err == nil && same(seen, before.seen) {
		return
	}
	pair, err := ReadPair(before.files)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != before: // another pair was taken meanwhile
	case err == nil:
		c.Logger.LogAttrs(context.Background(), slog.LevelInfo, "the certificate is in use", slog.Time("expires", pair.read.Leaf.NotAfter.In(time.UTC)))
		c.take(pair)
	case c.failure != err.Error():
		c.failure = err.Error()
		c.Logger.Error("the certificate is not used, and the one before goes on", slog.Any("error", err))
	}
}

// take needs the lock.
func (c *Certificate) take(p *Pair) {
	c.current, c.failure, c.expired = p, "", false
	c.expiry()
}

// expiry says once of a certificate that it has expired. It needs the lock.
func (c *Certificate) expiry() {
	now := time.Now
	if c.Clock != nil {
		now = c.Clock
	}
	if end := c.current.read.Leaf.NotAfter; !c.expired && now().After(end) {
		c.expired = true
		c.Logger.LogAttrs(context.Background(), slog.LevelWarn, "the certificate has expired, and callers refuse it: renew it",
			slog.String("file", c.current.files.Cert), slog.Time("expired", end.In(time.UTC)))
	}
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

// ReadPair reads a pair. The state of the files is noted before, so that files that change while they are read are read
// again. It fails when they are no pair, and when everybody on this machine may read the key.
func ReadPair(files Files) (*Pair, error) {
	seen, err := stat(files)
	if err != nil {
		return nil, err
	}
	if mode := seen[1].Mode().Perm(); mode&others != 0 && runtime.GOOS != "windows" { // where there are no such modes
		return nil, fmt.Errorf("the key %s is open to everybody on this machine (its mode is %04o): chmod o= it, and have a new one made", files.Key, mode)
	}
	var texts [2][]byte
	for i, name := range []string{files.Cert, files.Key} {
		if texts[i], err = readFile(name, seen[i]); err != nil {
			return nil, err
		}
	}
	read, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s cannot be used: %w", files.Cert, files.Key, err)
	}
	return &Pair{files: files, seen: seen, read: &read}, nil
}

// maxPEM is the most bytes of a file of a pair. Chains have a few KiB.
const maxPEM = 1 << 20

// readFile reads a file of a pair. It refuses pipes, whose opening waits for who writes to them: connections would wait
// with it.
func readFile(name string, info os.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: put one in PEM there", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s has more than %d MiB, which no certificate or key has", name, maxPEM>>20)
	}
	return text, err
}
