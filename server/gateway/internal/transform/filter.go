package transform

import (
	"bytes"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
)

// Filter leaves records out of an answer. It is safe for concurrent use.
type Filter struct {
	expression *expr.Expression
	records    string
}

// CompileFilter compiles an expression that tells of each record whether the user may see it. It knows record besides
// what CompileResponse knows. The records are the elements of the body when that is an array; or, with a name in records, of
// that member of it. When there are problems, there is no Filter.
func (all *Patterns) CompileFilter(source, records string) (*Filter, []*Problem) {
	pieces, problems := cut(source, false)
	if len(problems) > 0 {
		return nil, problems
	}
	e, problems := languages[inFilter].Compile(pieces[0], all.all.Source())
	if len(problems) > 0 {
		return nil, expr.Sorted(problems)
	}
	if !e.Kind.May(expr.Boolean | expr.Null) {
		return nil, []*Problem{{Column: e.Start, Message: notBoolean}}
	}
	return &Filter{e, records}, nil
}

const notBoolean = "a filter is true or false: compare something, as in record.owner == user.email"

// Run returns the response's body without the records for which the expression is false. Nothing passes that was not
// looked at: of an object, the result has the member with the records and no other. What stays comes byte for byte,
// except for white space between records.
//
// A body that is something else, and an expression that fails or is neither true nor false for any of the records are an
// *expr.Error, and so is the end of the context.
func (f *Filter) Run(ctx context.Context, in *Input) ([]byte, error) {
	r := newRun(ctx, in)
	if err := r.Read(2 * len(in.Response.Body)); err != nil { // find and keep
		return nil, err
	}
	array, problem := f.find(in.Response.Body)
	if problem != nil {
		return nil, problem
	}
	kept, all, problem := f.keep(r, array)
	if problem != nil {
		return nil, problem
	}
	if all {
		kept = array
	}
	if f.records == "" {
		return kept, nil
	}
	name, err := jsontext.AppendQuote([]byte{'{'}, f.records)
	if err != nil {
		return nil, expr.Malformed(err)
	}
	return append(append(append(name, ':'), kept...), '}'), nil
}

// find returns the array of records of a body, all of which is well-formed.
func (f *Filter) find(body []byte) (array jsontext.Value, err *expr.Error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	value := func() (jsontext.Value, *expr.Error) {
		raw, err := d.ReadValue()
		if err != nil {
			return nil, expr.Malformed(err)
		}
		return raw.Clone(), nil
	}
	switch {
	case f.records == "":
		array, err = value()
	case d.PeekKind() == '{':
		err = expr.SkipToken(d)
		for err == nil && d.PeekKind() != '}' {
			var name, member jsontext.Value
			if name, err = value(); err != nil {
				break
			}
			if member, err = value(); err != nil {
				break
			}
			if text, _ := jsontext.AppendUnquote(nil, name); string(text) == f.records {
				array = member
			}
		}
		if err == nil {
			err = expr.SkipToken(d)
		}
	default:
		_, err = value()
	}
	if err == nil {
		err = expr.AtEnd(d)
	}
	if err == nil && array.Kind() != '[' {
		if f.records != "" {
			return nil, &expr.Error{Message: "response.body has no records: the member that response.records names is not an array there"}
		}
		return nil, &expr.Error{Message: "response.body has no records: it must be a JSON array, or response.records name the member that is one"}
	}
	return array, err
}

// keep returns the array with the records that stay, and whether those are all. The array is well-formed.
func (f *Filter) keep(r *run, array []byte) (kept []byte, all bool, err *expr.Error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	if err := expr.SkipToken(d); err != nil {
		return nil, false, err
	}
	kept, all = append(kept, '['), true
	for d.PeekKind() != ']' {
		start := d.InputOffset()
		if r.record, err = r.DecodeNext(d, array); err != nil {
			return nil, false, err
		}
		value, err := r.Evaluate(f.expression)
		if err != nil {
			return nil, false, err
		}
		pass, isBoolean := value.(bool)
		switch {
		case !isBoolean:
			return nil, false, &expr.Error{Column: f.expression.Start, Message: notBoolean}
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
