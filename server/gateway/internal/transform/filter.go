package transform

import (
	"bytes"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
)

// Filter removes records from an answer. It is safe for concurrent use.
type Filter struct {
	expression *expr.Expression
	records    string
}

// CompileFilter compiles an expression that is true for the records that the user may see. It can name record, and all that
// the source of CompileResponse can. The records are the elements of the body, or of its member records if that is not "".
// If there are problems, the Filter is nil.
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

// Run returns the body of in.Response without the records for which the expression is false. If the body is an object, the
// result has only the member with the records, because the filter did not check the others. The remaining records keep their
// bytes; white space between them may change.
//
// Records that are missing or null are no records: APIs leave an empty list out (those of Google), or write null (servers in Go).
// Run returns an *expr.Error if the body has something else in their place, if the expression fails or is neither true nor false for a
// record, and if ctx ends.
func (f *Filter) Run(ctx context.Context, in *Input) ([]byte, error) {
	r := newRun(ctx, in)
	if err := r.Read(2 * len(in.Response.Body)); err != nil { // find and keep each read the body once
		return nil, err
	}
	array, problem := f.find(in.Response.Body)
	if problem != nil {
		return nil, problem
	}
	if in.NoRecords = array.Kind() == 'n'; in.NoRecords {
		array = jsontext.Value("[]")
	}
	result, all, problem := f.keep(r, array)
	if problem != nil {
		return nil, problem
	}
	if all {
		result = array
	}
	if f.records == "" {
		return result, nil
	}
	name, err := jsontext.AppendQuote([]byte{'{'}, f.records)
	if err != nil {
		return nil, expr.Malformed(err)
	}
	return append(append(append(name, ':'), result...), '}'), nil
}

// find returns the array of records of a body, or null if that is in its place or the named member is missing. It returns an error unless the whole body is well-formed JSON.
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
		array = jsontext.Value("null") // if there is no such member
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
	if err == nil && array.Kind() != '[' && array.Kind() != 'n' {
		if f.records != "" {
			return nil, &expr.Error{Message: "response.body has no records: the member that response.records names is not an array there"}
		}
		return nil, &expr.Error{Message: "response.body has no records: it must be a JSON array, or response.records name the member that is one"}
	}
	return array, err
}

// keep returns the array without the records for which the expression is false. all reports whether no record was removed.
// The array must be well-formed.
func (f *Filter) keep(r *run, array []byte) (result []byte, all bool, err *expr.Error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	if err := expr.SkipToken(d); err != nil {
		return nil, false, err
	}
	result, all = append(result, '['), true
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
		case len(result) > 1:
			result = append(result, ',')
		}
		result = append(result, bytes.TrimLeft(array[start:d.InputOffset()], " \t\r\n,")...)
	}
	return append(result, ']'), all, nil
}
