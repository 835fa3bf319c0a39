package embed

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// Limits of sanitising. Parsing can take quadratic time: the parser merges the attributes of thousands of <body>
// elements into one element. It can also make a tree hundreds of times as large as the text: the parser repeats
// hundreds of unclosed <b> elements in each paragraph after them.
const (
	maxDocuments = 4               // documents of all requests that are sanitised at once
	cleanTime    = 2 * time.Second // for a document
	maxGrowth    = 8               // factor by which a document may grow; a frame does when it gets its sandbox
	piece        = 512             // bytes that are parsed between two checks of the context
)

// limited is an io.Reader of a text that fails once the context has ended. There is no other way to stop a parser.
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

// capped is a strings.Builder that refuses writes beyond limit bytes with errGrowth.
type capped struct {
	strings.Builder
	limit int
}

func (c *capped) Write(p []byte) (int, error) { return c.WriteString(string(p)) }

// WriteString implements [io.StringWriter].
func (c *capped) WriteString(s string) (int, error) {
	if c.Len()+len(s) > c.limit {
		return 0, errGrowth
	}
	return c.Builder.WriteString(s)
}

// WriteByte implements [io.ByteWriter], which html.Render requires.
func (c *capped) WriteByte(b byte) error {
	if c.Len() >= c.limit {
		return errGrowth
	}
	return c.Builder.WriteByte(b)
}

var _ interface {
	io.Writer
	io.StringWriter
	io.ByteWriter
} = (*capped)(nil)
