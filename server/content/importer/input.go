package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/keywright/keywright/internal/problem"
)

const space = " \t\r\n" // the white space of JSON

// input splits its text into records. If the text ends within a line or a record, the last record is incomplete.
type input struct {
	name                          string
	r                             *bufio.Reader
	started, array, ignoreUnknown bool
	// done reports that nothing more will be read.
	done bool
	// comma reports that the last element of the array was followed by a comma.
	comma bool
	// place is the place of the next byte, start that of the current record.
	place, start problem.Place
	// bytes counts the bytes read, good the good records.
	bytes int64
	good  int
	// buffer holds a record that is longer than the buffer of r.
	buffer []byte
}

// untilError is a reader that is not read after an error: a terminal would wait for input after its end.
type untilError struct {
	r   io.Reader
	err error
}

func (u *untilError) Read(p []byte) (n int, err error) {
	if u.err == nil {
		n, u.err = u.r.Read(p)
	}
	return n, u.err
}

// next returns the text of the next record. It is valid until the next call. The error is [io.EOF] at the end, an
// inputError, after which next may be called again, or the error of the reader.
func (in *input) next() ([]byte, error) {
	if !in.started {
		in.started = true
		if err := in.open(); err != nil {
			return nil, err
		}
	}
	switch {
	case in.done:
		return nil, io.EOF
	case in.array:
		return in.element()
	}
	return in.line()
}

// lines returns the number of lines that have been read, including an incomplete last one.
func (in *input) lines() int {
	if in.place.Column == 1 {
		return in.place.Line - 1
	}
	return in.place.Line
}

// last returns an error at the next byte, and ends the input.
func (in *input) last(format string, args ...any) error {
	in.done = true
	return &inputError{Problem: in.place.Problem("", format, args...)}
}

// knownFormats are file formats that the importer refuses, by their first bytes, with what to do.
var knownFormats = []struct{ magic, message string }{
	{"\x1f\x8b", "this is compressed by gzip: decompress it first, as in gunzip -c FILE | keywright content import -"},
	{"\x28\xb5\x2f\xfd", "this is compressed by zstd: decompress it first, as in zstd -dc FILE | keywright content import -"},
	{"BZh", "this is compressed by bzip2: decompress it first, as in bunzip2 -c FILE | keywright content import -"},
	{"\xfd7zXZ", "this is compressed by xz: decompress it first, as in xz -dc FILE | keywright content import -"},
	{"PK\x03\x04", "this is a zip archive: unpack it first"},
	{"\xff\xfe", "this is UTF-16: convert it to UTF-8 first"},
	{"\xfe\xff", "this is UTF-16: convert it to UTF-8 first"},
	{"SQLite format", "this is an SQLite database, not records as JSON"},
}

// open detects the format of the input and skips to its first record.
func (in *input) open() error {
	head, err := in.r.Peek(16)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, f := range knownFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return in.last("%s", f.message)
		}
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		in.skip(3)
		in.place.Column = 1 // a byte order mark does not count as a character
	}
	first, err := in.peek()
	if err != nil {
		return err
	}
	if first == '[' {
		in.array = true
		in.skip(1)
	}
	return nil
}

// peek skips white space and returns the next byte, which it does not consume.
func (in *input) peek() (byte, error) {
	for {
		next, err := in.r.Peek(1)
		if err != nil {
			return 0, err
		}
		if !bytes.Contains([]byte(space), next) {
			return next[0], nil
		}
		in.skip(1)
	}
}

// skip consumes n bytes, which must be in the buffer.
func (in *input) skip(n int) {
	text, _ := in.r.Peek(n)
	in.place = in.place.Advance(text)
	in.bytes += int64(n)
	_, _ = in.r.Discard(n)
}

func (in *input) line() ([]byte, error) {
	for {
		in.start = in.place
		text, err := in.readLine()
		if err != nil {
			return nil, err
		}
		switch text = bytes.TrimRight(text, space); {
		case len(text) > maxRecord:
			return nil, &inputError{in.start.Problem("", tooLong, maxRecord>>20), true}
		case len(text) > 0:
			return text, nil
		}
	}
}

const tooLong = "this record has more than %d MiB, which is too much: shorten it"

// readLine reads a line. Of one longer than maxRecord it returns the beginning, so that memory is bounded.
func (in *input) readLine() ([]byte, error) {
	in.buffer = in.buffer[:0]
	for {
		part, err := in.r.ReadSlice('\n')
		in.bytes += int64(len(part))
		switch {
		case err == nil:
			in.place = problem.Place{Line: in.place.Line + 1, Column: 1}
		case errors.Is(err, io.EOF) && len(part)+len(in.buffer) > 0:
			in.place = in.place.Advance(part)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if err == nil && len(in.buffer) == 0 {
			return part, nil
		}
		if len(in.buffer) <= maxRecord {
			in.buffer = append(in.buffer, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return in.buffer, nil
		}
	}
}

func (in *input) element() ([]byte, error) {
	next, err := in.peek()
	in.start = in.place
	switch {
	case errors.Is(err, io.EOF):
		return nil, in.last("the array has no end: a ] is missing%s", in.endOfArray())
	case err != nil:
		return nil, err
	case next == ',':
		return nil, in.last("there is no record before this comma: take it away%s", in.endOfArray())
	case next == ']' && in.comma:
		return nil, in.last("there is a comma before the end of the array: take it away; %s", in.read())
	case next == ']':
		return nil, in.endArray()
	}
	text, err := in.readElement()
	if err != nil {
		return nil, err
	}
	in.comma = false
	if next, err := in.r.Peek(1); err == nil && next[0] == ',' {
		in.comma = true
		in.skip(1)
	}
	if len(text) > maxRecord {
		return nil, &inputError{in.start.Problem("", tooLong, maxRecord>>20), true}
	}
	return text, nil
}

func (in *input) endOfArray() string {
	return "; nothing after this can be read in an array; " + in.read()
}

func (in *input) read() string { return fmt.Sprintf("good records before it: %d", in.good) }

// endArray reads the closing bracket of the array. It returns io.EOF if nothing follows it but white space.
func (in *input) endArray() error {
	in.skip(1)
	_, err := in.peek()
	switch {
	case errors.Is(err, io.EOF):
		in.done = true
		return io.EOF
	case err != nil:
		return err
	}
	return in.last("there is more after the end of the array, which is not read: put all records into one array, or each on a line without any array; %s", in.read())
}

// readElement returns the text up to the comma or the bracket after an element. Of one longer than maxRecord it returns
// the beginning, so that memory is bounded, and does not read the rest if that is not JSON.
func (in *input) readElement() ([]byte, error) {
	in.buffer = in.buffer[:0]
	var e element
	for {
		if _, err := in.r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				return in.buffer, nil
			}
			return nil, err
		}
		part, _ := in.r.Peek(in.r.Buffered())
		n, done := e.scan(part)
		if len(in.buffer) <= maxRecord {
			in.buffer = append(in.buffer, part[:n]...)
			if len(in.buffer) > maxRecord {
				if p, broken := syntax(in.buffer, in.start); broken && !errors.Is(p.err, io.ErrUnexpectedEOF) {
					return in.buffer[:maxRecord], nil // short enough to be reported as a syntax error, not as too long
				}
			}
		}
		in.skip(n)
		if done {
			return in.buffer, nil
		}
	}
}

type element struct {
	depth           int
	quoted, escaped bool
}

// scan continues in the next part of the text. n bytes belong to the element, and done is true if it ends there.
func (e *element) scan(text []byte) (n int, done bool) {
	for i, c := range text {
		switch {
		case e.escaped:
			e.escaped = false
		case e.quoted:
			e.escaped = c == '\\'
			e.quoted = c != '"'
		case e.depth <= 0 && (c == ',' || c == ']'):
			return i, true
		case c == '"':
			e.quoted = true
		case c == '{' || c == '[':
			e.depth++
		case c == '}' || c == ']':
			e.depth--
		}
	}
	return len(text), false
}
