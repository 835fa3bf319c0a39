package importer

import (
	"errors"
	"fmt"
	"io"
)

// element returns the next record of an array.
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

// endOfArray returns the end of a message about malformed text in an array: the rest cannot be read.
func (in *input) endOfArray() string {
	return "; nothing after this can be read in an array; " + in.read()
}

// read returns the part of a message that counts the good records.
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

// readElement returns the text up to the comma or the bracket after an element. Of an element that is longer than
// maxRecord it returns only the beginning, so that memory is bounded. If that beginning is not JSON, it does not read
// the rest.
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

// element is the state of scan inside an element of an array.
type element struct {
	depth           int
	quoted, escaped bool
}

// scan continues in the next part of the text. It returns how many bytes belong to the element, and whether the element
// ends after them.
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
