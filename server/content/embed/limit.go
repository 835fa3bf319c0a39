package embed

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// Limits of sanitising. Parsing can take a time that is quadratic in what is parsed (thousands of <body>, each with an
// attribute of its own, which all become one's), and make a tree that is hundreds of times as large (hundreds of <b> that
// are not closed come again in each paragraph after them).
const (
	maxDocuments = 4 // at once, of all requests
	cleanTime    = 2 * time.Second
	maxGrowth    = 8   // times the bytes that were there; a frame's sandbox makes it some
	piece        = 512 // bytes that are parsed between two looks at the time
)

// limited reads a text in pieces, and fails when the context has ended: a parser cannot be stopped otherwise.
type limited struct {
	ctx  context.Context
	text *strings.Reader
}

func (l *limited) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.text.Read(p[:min(len(p), piece)])
}

var errGrowth = errors.New("the HTML is repaired to far more than was written")

// capped keeps what is written, up to a number of bytes.
type capped struct {
	strings.Builder
	most int
}

func (c *capped) Write(p []byte) (int, error) { return c.WriteString(string(p)) }

// WriteString implements [io.StringWriter].
func (c *capped) WriteString(s string) (int, error) {
	if c.Len()+len(s) > c.most {
		return 0, errGrowth
	}
	return c.Builder.WriteString(s)
}

// WriteByte implements [io.ByteWriter], as html.Render wants it.
func (c *capped) WriteByte(b byte) error {
	if c.Len() >= c.most {
		return errGrowth
	}
	return c.Builder.WriteByte(b)
}

var _ interface {
	io.Writer
	io.StringWriter
	io.ByteWriter
} = (*capped)(nil)
