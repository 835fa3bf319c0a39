// Package lockedreader makes readers, such as sources of random bytes, safe for concurrent use.
package lockedreader

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
)

// Reader reads from another reader, one call at a time.
type Reader struct {
	mu     sync.Mutex
	reader io.Reader
}

// New returns a Reader of r.
func New(r io.Reader) *Reader { return &Reader{reader: r} }

// Seed makes r a source of random bytes that are the same after each Seed with this text.
func (r *Reader) Seed(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader = rand.NewChaCha8(sha256.Sum256([]byte(text)))
}

func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader.Read(p)
}
