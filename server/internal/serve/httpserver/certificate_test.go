package httpserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If the disk of the files hangs, the connection that checks them waits. The other connections get the certificate in
// use.
func TestOnlyOneConnectionLooksAtTheFiles(t *testing.T) {
	var log bytes.Buffer
	missing := filepath.Join(t.TempDir(), "missing")
	pair := &Pair{files: Files{missing, missing}, read: &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}}}
	c := &Certificate{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	c.Use(pair)
	pair.looking.Lock() // like a connection that waits for the disk
	if got, err := c.get(nil); got != pair.read || err != nil || log.Len() > 0 {
		t.Errorf("another connection gets %v, %v, and the log says %q", got, err, &log)
	}
	pair.looking.Unlock()
	if got, err := c.get(nil); got != pair.read || err != nil || !strings.Contains(log.String(), "missing") {
		t.Errorf("the next connection gets %v, %v, and the log says %q", got, err, &log)
	}
}
