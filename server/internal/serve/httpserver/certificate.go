package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/keywright/keywright/internal/files"
)

// Files is the names of two PEM files: a certificate with its chain, and its key.
type Files struct{ Cert, Key string }

// Certificate is the certificate and key of a server. A new connection reads the files again if they have changed, so that a renewed
// certificate needs no reload. If the new pair cannot be used, the previous one stays in use. An expired certificate is used all the same,
// since callers refuse it with a clear error. The log reports it when it comes into use, or at the first connection after its expiry.
//
// Certificate is safe for concurrent use after the first call of Use.
type Certificate struct {
	Logger *slog.Logger
	// If Clock is nil, time.Now is used.
	Clock func() time.Time

	// mu is not held while files are read, because they may be on a disk that hangs.
	mu      sync.Mutex
	current *Pair
	// failure is the last error that was logged.
	failure string
	// expired reports that the expiry of current was logged.
	expired bool
}

// Pair is a certificate with its key, as read from their files.
type Pair struct {
	files Files
	// infos is the state of the files when they were read.
	infos [2]os.FileInfo
	read  *tls.Certificate

	// looking is held by the connection that checks the files.
	looking sync.Mutex
}

// Config returns the TLS configuration of the listener for callers. net/http adds HTTP/2 to it.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// Use makes p the pair in use. From now on, changes of its files are noticed.
func (c *Certificate) Use(p *Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(p)
}

// NotAfter returns the time until which the certificate is valid.
func (c *Certificate) NotAfter() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.read.Leaf.NotAfter
}

// get implements tls.Config.GetCertificate. After a failure, the next connection tries again: a new certificate and a new
// key are written one after the other.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiry()
	return c.current.read, nil
}

// look reads the files if they have changed. It does nothing while another connection checks them.
func (c *Certificate) look() {
	c.mu.Lock()
	previous := c.current
	c.mu.Unlock()
	if !previous.looking.TryLock() {
		return
	}
	defer previous.looking.Unlock()
	if infos, err := stat(previous.files); err == nil && same(infos, previous.infos) {
		return
	}
	pair, err := ReadPair(previous.files)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != previous: // Use was called meanwhile
	case err == nil:
		c.Logger.LogAttrs(context.Background(), slog.LevelInfo, "the certificate is in use", slog.Time("expires", pair.read.Leaf.NotAfter.In(time.UTC)))
		c.take(pair)
	case c.failure != err.Error():
		c.failure = err.Error()
		c.Logger.Error("the certificate is not used, and the one before goes on", slog.Any("error", err))
	}
}

// take makes p the pair in use. The caller holds c.mu.
func (c *Certificate) take(p *Pair) {
	c.current, c.failure, c.expired = p, "", false
	c.expiry()
}

// expiry logs once that the certificate in use has expired. The caller holds c.mu.
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
	return slices.EqualFunc(a[:], b[:], func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// ReadPair reads a pair from its files. It records the state of the files before it reads them, so that files that
// change meanwhile are read again. It returns an error if a file cannot be read, if certificate and key do not match,
// or if everybody on this machine has any permission for the key.
func ReadPair(files Files) (*Pair, error) {
	const worldBits = 0o007 // the mode bits of everybody on the machine
	infos, err := stat(files)
	if err != nil {
		return nil, err
	}
	if mode := infos[1].Mode().Perm(); mode&worldBits != 0 && runtime.GOOS != "windows" { // Windows has no such modes
		return nil, fmt.Errorf("the key %s is open to everybody on this machine (its mode is %04o): chmod o= it, and have a new one made", files.Key, mode)
	}
	var texts [2][]byte
	for i, name := range []string{files.Cert, files.Key} {
		if texts[i], err = readFile(name, infos[i]); err != nil {
			return nil, err
		}
	}
	read, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s cannot be used: %w", files.Cert, files.Key, err)
	}
	return &Pair{files: files, infos: infos, read: &read}, nil
}

// maxPEM is the maximum size of a file of a pair in bytes. Chains have a few KiB.
const maxPEM = 1 << 20

// readFile reads a file of a pair. It refuses pipes, because opening one would block, with the connections, until
// another program opens it for writing.
func readFile(name string, info os.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: put one in PEM there", name)
	}
	text, err := files.Read(name, maxPEM)
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s has more than %d MiB, which no certificate or key has", name, maxPEM>>20)
	}
	return text, err
}
