package importer

import (
	"errors"
	"fmt"
	"io"
)

// element returns the next record of an array.
func (in *input) element() ([]byte, error) {
	next, err := in.peek()
	in.start = in.at
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
		return nil, &flaw{in.start.Problem("", tooLong, maxRecord>>20), true}
	}
	return text, nil
}

// endOfArray says what becomes of the records when the text of an array is wrong.
func (in *input) endOfArray() string {
	return "; nothing after this can be read in an array; " + in.read()
}

func (in *input) read() string { return fmt.Sprintf("good records before it: %d", in.good) }

// endArray reads the end of the array, after which there may be nothing.
func (in *input) endArray() error {
	in.skip(1)
	_, err := in.peek()
	switch {
	case errors.Is(err, io.EOF):
		in.ended = true
		return io.EOF
	case err != nil:
		return err
	}
	return in.last("there is more after the end of the array, which is not read: put all records into one array, or each on a line without any array; %s", in.read())
}

// readElement reads up to the comma or the bracket after an element. Of one that is too long it gives no more than a
// little above what a record may have; if that is no JSON, it reads no further.
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
		n, ended := e.scan(part)
		if len(in.buffer) <= maxRecord {
			in.buffer = append(in.buffer, part[:n]...)
			if len(in.buffer) > maxRecord {
				if p, broken := syntax(in.buffer, in.start); broken && !errors.Is(p.err, io.ErrUnexpectedEOF) {
					return in.buffer[:maxRecord], nil // which is told of as what it is
				}
			}
		}
		in.skip(n)
		if ended {
			return in.buffer, nil
		}
	}
}

// element is how far an element of an array has been read.
type element struct {
	depth           int
	quoted, escaped bool
}

// scan goes on in the text of an element, and gives how much of it belongs to it, and whether it ends there.
func (e *element) scan(text []byte) (n int, ended bool) {
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
