package transform

import (
	"bytes"
	"context"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// Filter leaves records out of an answer. It is safe for concurrent use.
type Filter struct {
	expression *expression
}

// CompileFilter compiles an expression that tells of each record whether the user may see it. It knows record besides
// what CompileResponse knows. When there are problems, there is no Filter.
func CompileFilter(source string) (*Filter, []Problem) {
	pieces, problems := cut(source, false)
	if len(problems) > 0 {
		return nil, problems
	}
	e, problems := compile(pieces[0], inFilter, false)
	if len(problems) > 0 {
		return nil, sorted(problems)
	}
	if e.kind != reflect.Bool && e.kind != reflect.Interface {
		return nil, []Problem{{e.start, notBoolean}}
	}
	return &Filter{e}, nil
}

const notBoolean = "a filter is true or false: compare something, as in record.owner == user.email"

// Names gives what the expression names.
func (f *Filter) Names() Names {
	var n Names
	n.merge(f.expression.names)
	return n
}

// Run gives the response's body without the records for which the expression is false. The records are the elements of
// the body when it is a JSON array, and those of the one member that is an array when it is an object; its other members
// stay as they are, so a total goes on counting what was left out. What stays comes byte for byte, except for white space
// between records. When all stay, the result is the body itself.
//
// No record passes unasked: a body that is neither, an object with no array or several, and an expression that fails or
// is neither true nor false for any of the records are an *Error, and so is the end of the context.
func (f *Filter) Run(ctx context.Context, in *Input) ([]byte, error) {
	body := in.Response.Body
	start, end, err := findRecords(body)
	if err != nil {
		return nil, at(0, err)
	}
	r := newRun(ctx, in, f.expression.encodes)
	kept, all, err := f.keep(r, body[start:end])
	if err != nil {
		return nil, err
	}
	if all {
		return body, nil
	}
	filtered := make([]byte, 0, len(body)-(end-start)+len(kept))
	filtered = append(filtered, body[:start]...)
	filtered = append(filtered, kept...)
	return append(filtered, body[end:]...), nil
}

// findRecords gives where in the body the array of records is.
func findRecords(body []byte) (start, end int, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	arrays := 0
	value := func() error {
		isArray := d.PeekKind() == '['
		raw, err := d.ReadValue()
		if err != nil {
			return malformed(err)
		}
		if isArray {
			arrays++
			end = int(d.InputOffset())
			start = end - len(raw)
		}
		return nil
	}
	if d.PeekKind() == '{' {
		err = skipToken(d)
		for err == nil && d.PeekKind() != '}' {
			if err = skipToken(d); err == nil { // the name
				err = value()
			}
		}
		if err == nil {
			err = skipToken(d)
		}
	} else {
		err = value()
	}
	if err == nil {
		err = atEnd(d)
	}
	if err == nil && arrays != 1 {
		err = fail("response.body has no records: it must be a JSON array, or an object with one member that is an array")
	}
	return start, end, err
}

// keep gives the array with the records that stay, and whether those are all. The array is well-formed.
func (f *Filter) keep(r *run, array []byte) (kept []byte, all bool, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	if err := skipToken(d); err != nil {
		return nil, false, err
	}
	kept, all = append(kept, '['), true
	for d.PeekKind() != ']' {
		if r.sources == nil {
			r.values = 0 // the last record is garbage
		}
		start := d.InputOffset()
		if r.record, _, err = r.read(d, array, 0); err != nil {
			return nil, false, at(0, err)
		}
		value, err := r.evaluate(f.expression)
		if err != nil {
			return nil, false, err
		}
		pass, isBoolean := value.(bool)
		switch {
		case !isBoolean:
			return nil, false, &Error{Column: f.expression.start, Message: notBoolean}
		case !pass:
			all = false
			continue
		case len(kept) > 1:
			kept = append(kept, ',')
		}
		kept = append(kept, bytes.TrimLeft(array[start:d.InputOffset()], " \t\r\n,")...)
	}
	return append(kept, ']'), all, nil
}
