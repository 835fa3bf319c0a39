package leakscan

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Errors that a body ends with: a text was found, or the search takes too long (see budget).
var (
	ErrFound  = errors.New("a text that is looked for was found")
	ErrEffort = errors.New("it would take too long to search for the text: it nearly repeats it over and over")
)

const (
	// minRead is the least room, in bytes, that the caller's buffer must have besides the bytes held back. Otherwise the
	// body reads into a buffer of its own, of ownBuffer bytes or more.
	minRead   = 512
	ownBuffer = 4 << 10
)

// Body returns a body that passes on the data of source until a text is found in it. Then it closes source and ends with
// ErrFound. It passes on no byte of the match.
//
// It passes data on as it comes. It holds back only bytes that may be the beginning of a match, until they are not. At
// the end of file it passes these on; if source fails it drops them. If the search takes too long for the data so far,
// the body ends as after a match, with ErrEffort.
//
// Read calls last once, with io.EOF, ErrFound, ErrEffort or another error of source, and returns the error that last returns.
func (sc *Scanner) Body(source io.ReadCloser, last func(error) error) io.ReadCloser {
	return &body{scanner: sc, source: source, last: last, effort: savings}
}

// body is the body that Scanner.Body returns. It has no WriteTo and no other method of its source, because there must be no way past Read.
type body struct {
	scanner *Scanner
	source  io.ReadCloser
	last    func(error) error

	// tail are the bytes that may be the beginning of a match.
	tail   []byte
	effort budget
	// line is the number of bytes without white space before held, at most minLine.
	line int
	// own is a buffer for when the caller's is too small, and ready is the part of it that the caller has yet to read.
	own   []byte
	ready []byte
	err   error

	closed  atomic.Bool
	closing sync.Once
	// failure is the error of closing source.
	failure error
}

// Read implements io.Reader. It clears what it has used of p beyond the bytes that it returns.
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
		if len(p)-len(b.tail) >= minRead {
			n, empty := b.fill(p)
			if n > 0 || empty {
				return n, b.err
			}
			continue
		}
		if room := max(ownBuffer, 2*len(b.tail)); len(b.own) < room {
			b.own = make([]byte, room)
		}
		n, empty := b.fill(b.own)
		if b.ready = b.own[:n]; empty {
			return 0, nil
		}
	}
}

// fill reads from source once. It returns the number of bytes in the buffer that may be passed on. empty reports that
// source returned neither data nor an error.
func (b *body) fill(buffer []byte) (n int, empty bool) {
	prefix := copy(buffer, b.tail)
	read, err := b.source.Read(buffer[prefix:])
	data := buffer[:prefix+read]
	if read == 0 && err == nil {
		clear(data)
		return 0, true
	}
	b.effort = min(b.effort+budget(earned*read), savings)
	b.effort -= budget(prefix / 8) // held bytes are searched again
	found, safe := b.scanner.scan(data, b.line, err == io.EOF, &b.effort)
	if found {
		_ = b.close()
		if err, safe = ErrFound, 0; b.effort < 0 {
			err = ErrEffort
		}
	} else if err == io.EOF {
		safe = len(data)
	}
	b.line = line(data[:safe], b.line)
	b.tail = append(b.tail[:0], data[safe:]...)
	clear(data[safe:])
	if err != nil {
		b.tail = nil
		b.err = b.last(err)
	}
	return safe, false
}

// Close implements io.Closer. It may be called during Read.
func (b *body) Close() error {
	b.closed.Store(true)
	return b.close()
}

func (b *body) close() error {
	b.closing.Do(func() { b.failure = b.source.Close() })
	return b.failure
}

// Limits of line breaks in Base64.
const (
	minLine  = 32 // least number of bytes without white space before one: lines of MIME have 64 or 76
	maxBreak = 64 // greatest number of bytes of one together with the white space behind it
)

// white returns the character of white space at the beginning of data and the number of bytes that it takes. If data
// begins with an escape, x must have read it. c is 0 if data begins with another character.
func (x *escape) white(data []byte) (c byte, width int) {
	c, width = data[0], 1
	if x.count > 0 && c != '+' { // + is a character of Base64
		r := &x.readings[x.count-1] // the longest reading
		c, width = r.text[0], r.span
	}
	if strings.IndexByte("\r\n \t", c) < 0 {
		return 0, 0
	}
	return c, width
}

// lineBreak returns the number of bytes of the line break at the beginning of data, or 0 if there is no line break. If data begins with an
// escape, x must have read it. A line break is CR, LF or CRLF, and the white space that the next line begins with.
func (x *escape) lineBreak(data []byte) int {
	c, width := x.white(data)
	if c != '\r' && c != '\n' {
		return 0
	}
	next := escape{last: true} // an incomplete escape is not part of the line break
	feed := c == '\r'
	for pos := width; ; pos += width {
		if pos >= min(len(data), maxBreak) || base64Characters[data[pos]] {
			return pos
		}
		next.read(data[pos:])
		switch c, width = next.white(data[pos:]); {
		case c == '\n' && feed, c == ' ', c == '\t':
			feed = false
		default:
			return pos
		}
	}
}

// line returns the number of bytes without white space at the end of data, behind prefix such bytes, at most minLine.
func line(data []byte, prefix int) int {
	n := 0
	for n < minLine {
		if n == len(data) {
			return min(n+prefix, minLine)
		}
		if c := data[len(data)-1-n]; c <= ' ' || c >= 0x7f {
			break
		}
		n++
	}
	return n
}
