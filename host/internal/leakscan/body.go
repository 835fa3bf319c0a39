package leakscan

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// What a body ends with in which something was found, or that takes too long to search (see budget).
var (
	ErrFound  = errors.New("a text that is looked for was found")
	ErrEffort = errors.New("it would take too long to search for the text: it nearly repeats it over and over")
)

const (
	minRead   = 512     // bytes that the caller's buffer must have room for, beside what is held back
	ownBuffer = 4 << 10 // bytes, for callers whose buffer has not
)

// Body returns what source has until something is found in it: then it closes source and gives no byte of what was
// found. Data is passed on as it comes. Held back is only what may be the beginning of a text that is looked for, until
// it is known to be none. When source fails, what was held back is dropped; at the end of file it is given. When the search
// takes too long for what has come so far, the body ends as if something was found, with ErrEffort.
//
// Read calls last once, with io.EOF, ErrFound, ErrEffort or another error of source, and returns the error that last
// returns.
func (sc *Scanner) Body(source io.ReadCloser, last func(error) error) io.ReadCloser {
	return &body{scanner: sc, source: source, last: last, left: savings}
}

// body has no WriteTo, and shows none of its source's methods: there must be no way past Read.
type body struct {
	scanner *Scanner
	source  io.ReadCloser
	last    func(error) error

	held  []byte // may be the beginning of something
	left  budget
	line  int    // bytes without white space that stand before it, up to minLine
	own   []byte // a buffer, once one was needed
	ready []byte // of own, what the caller has not got yet
	err   error  // the last one

	closed  atomic.Bool // by the caller
	closing sync.Once
	failure error // of closing
}

// Read implements io.Reader. What it uses of p beyond what it gives is cleared.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(p) == 0:
		return 0, nil
	}
	for {
		if len(b.ready) > 0 {
			n := copy(p, b.ready)
			b.ready = b.ready[n:]
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}
		if len(p)-len(b.held) >= minRead {
			n, empty := b.fill(p)
			if n > 0 || empty {
				return n, b.err
			}
			continue
		}
		if room := max(ownBuffer, 2*len(b.held)); len(b.own) < room {
			b.own = make([]byte, room)
		}
		n, empty := b.fill(b.own)
		if b.ready = b.own[:n]; empty {
			return 0, nil
		}
	}
}

// fill reads once, and gives how many bytes in the buffer may be passed on. Empty says that source gave nothing, not
// even an error.
func (b *body) fill(buffer []byte) (n int, empty bool) {
	before := copy(buffer, b.held)
	read, err := b.source.Read(buffer[before:])
	data := buffer[:before+read]
	if read == 0 && err == nil {
		clear(data)
		return 0, true
	}
	b.left.earn(read)
	b.left -= budget(before / 8) // it is looked at again
	found, safe := b.scanner.scan(data, b.line, err == io.EOF, &b.left)
	switch {
	case found && b.left < 0:
		_ = b.close()
		err, safe = ErrEffort, 0
	case found:
		_ = b.close()
		err, safe = ErrFound, 0
	case err == io.EOF:
		safe = len(data)
	}
	b.line = line(data[:safe], b.line)
	b.held = append(b.held[:0], data[safe:]...)
	clear(data[safe:])
	if err != nil {
		b.held = nil
		b.err = b.last(err)
	}
	return safe, false
}

// Close implements io.Closer. It may be called while Read is.
func (b *body) Close() error {
	b.closed.Store(true)
	return b.close()
}

func (b *body) close() error {
	b.closing.Do(func() { b.failure = b.source.Close() })
	return b.failure
}
