// Package transform evaluates a connector's expressions over the caller's request and the API's answer. It shapes bodies, and removes
// records that a user may not see. Package expr implements the expressions. Expressions of this package cannot name secrets.
//
// # Numbers, and the order of members
//
// A JSON number is an integer if it is written as one and fits into 64 bits. Otherwise it is a float64. A number that fits neither (an
// integer of twenty digits, 1e400) can only be passed on and compared with ==. An integer and a float64 are compared as float64.
//
// An object or array that an expression passes on as a whole keeps its bytes. So does a number that it passes on as a member
// of one: 1.10 stays 1.10 in {price: response.body.price}. After let or a calculation it is 1.1. Objects that an expression
// makes have their members in the order of the source.
package transform

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// Limits of one source, and of one run of it.
const (
	MaxSource      = 64 << 10 // bytes of source
	MaxExpressions = expr.MaxExpressions
	MaxTokens      = 4096     // tokens of an expression; this limits nesting too
	MaxOutput      = 8 << 20  // bytes of a shaped body
	MaxText        = 64 << 20 // bytes of all texts, objects and lists that functions, +, { } and [ ] make
	MaxDepth       = 100      // nesting of JSON
	MaxValues      = 1 << 19  // decoded JSON values, of some 100 bytes each; see [expr.Limits]
	MaxSteps       = 8 << 20  // steps; see [expr.Limits]
)

var limits = &expr.Limits{
	Steps: MaxSteps, TooManySteps: fmt.Sprintf("more than %d steps: it goes through too long lists or texts", MaxSteps),
	Made: MaxText, Text: math.MaxInt, JSON: MaxOutput, TooLong: tooMuchOutput, Values: MaxValues, Depth: MaxDepth,
}

const tooMuchOutput = "the result is longer than 8 MiB"

// Patterns compiles sources that are served together, and limits the total size of their patterns of matches. The zero value
// is ready for use. It is not safe for concurrent use.
type Patterns struct{ all expr.Patterns }

// Input holds the values that expressions can name.
type Input struct {
	// User is nil if the request has no user.
	User *host.User
	// Variable, Now and UUID implement get_variable, now and uuid. Each may be nil if no expression calls it.
	Variable func(name string) (value string, ok bool)
	Now      func() time.Time
	UUID     func() (string, error)
	Request  Request
	Response Response
	// NoRecords is set by Filter.Run if the records are missing or null.
	NoRecords bool
}

// Request is the caller's request.
type Request struct {
	Method, Path string
	Query        url.Values
	// Header has the headers that expressions may see.
	Header http.Header
	Body   []byte
}

// Response is the API's answer. Expressions see its body as JSON if its Content-Type is JSON, and as text otherwise.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte
}

// Body is a compiled template or expression that makes a body. It is safe for concurrent use.
type Body struct {
	pieces []part
	// template reports whether the source is a template. Otherwise pieces has one expression, whose value is the body.
	template bool
}

// part is literal text, or an expression if that is not nil.
type part struct {
	text string
	*expr.Expression
}

// CompileRequest compiles the template of a request's body: text with {{ expression }}. Its expressions can name user,
// tenant_id, request and body_text. If there are problems, the Body is nil.
func (all *Patterns) CompileRequest(source string) (*Body, []*expr.Error) {
	return all.compileBody(source, true, inRequest)
}

// CompileResponse compiles the template or expression of an answer's body. The source is a template if it contains {{, and one expression
// otherwise. It can name response, and all that the source of CompileRequest can. If there are problems, the Body is nil.
func (all *Patterns) CompileResponse(source string) (*Body, []*expr.Error) {
	return all.compileBody(source, strings.Contains(source, "{{"), inResponse)
}

// cut splits a template into texts and expressions. A source that is not a template is one expression.
func cut(source string, template bool) ([]expr.Piece, *expr.Error) {
	if len(source) > MaxSource {
		return nil, &expr.Error{Message: "the source is longer than 64 KiB"}
	}
	if template {
		return expr.Cut(source, MaxTokens)
	}
	piece, problem := expr.Whole(source, MaxTokens)
	return []expr.Piece{piece}, problem
}

func (all *Patterns) compileBody(source string, template bool, where place) (*Body, []*expr.Error) {
	pieces, problem := cut(source, template)
	var problems []*expr.Error
	if problem != nil {
		problems = append(problems, problem)
	}
	b, patterns := &Body{template: template}, all.all.Source()
	for _, p := range pieces {
		if !p.Expression {
			b.pieces = append(b.pieces, part{text: p.Text})
			continue
		}
		e, found := languages[where].Compile(p, patterns)
		problems = append(problems, found...)
		b.pieces = append(b.pieces, part{Expression: e})
	}
	if len(problems) > 0 {
		return nil, expr.Sorted(problems)
	}
	return b, nil
}

// Run returns the body. The values of a template are inserted without quoting; to quote one for JSON, the template calls json_encode. The
// value of an expression is the body if it is text. Otherwise the body is the JSON of the value, and isJSON is true.
//
// The limits bound memory and work. For a limit of time, ctx should have a deadline, which Run checks at least once in 1024
// steps. The error is an *expr.Error. It wraps the error of ctx or of Input.UUID, if that is the reason.
func (b *Body) Run(ctx context.Context, in *Input) (body []byte, isJSON bool, err error) {
	r := newRun(ctx, in)
	for _, p := range b.pieces {
		if p.Expression == nil {
			body = append(body, p.text...)
			continue
		}
		value, err := r.Evaluate(p.Expression)
		if err != nil {
			return nil, false, err
		}
		_, isText := value.(string)
		isJSON = !isText && !b.template
		if value == nil && b.template {
			return nil, false, &expr.Error{Column: p.Start, Message: "the value is missing or null: give default(value, other)"}
		}
		if body, err = r.AppendText(body, value); err != nil {
			err.Column = p.Start
			return nil, false, err
		}
	}
	if len(body) > MaxOutput {
		return nil, false, &expr.Error{Message: tooMuchOutput}
	}
	return body, isJSON, nil
}

// Filter removes records from an answer. It is safe for concurrent use.
type Filter struct {
	expression *expr.Expression
	records    string
}

// CompileFilter compiles an expression that is true for the records that the user may see. It can name record, and all that
// the source of CompileResponse can. The records are the elements of the body, or of its member records if that is not "".
// If there are problems, the Filter is nil.
func (all *Patterns) CompileFilter(source, records string) (*Filter, []*expr.Error) {
	b, problems := all.compileBody(source, false, inFilter)
	if b == nil {
		return nil, problems
	}
	e := b.pieces[0].Expression
	if !e.Kind.May(expr.Boolean | expr.Null) {
		return nil, []*expr.Error{{Column: e.Start, Message: notBoolean}}
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

// find returns the array of records of a body, or null if that is in its place or the named member is missing. It returns an error unless
// the whole body is well-formed JSON.
func (f *Filter) find(body []byte) (jsontext.Value, *expr.Error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	array, failure := f.read(d)
	if failure != nil {
		return nil, expr.Malformed(failure)
	}
	if err := expr.AtEnd(d); err != nil {
		return nil, err
	}
	switch kind := array.Kind(); {
	case kind == '[' || kind == 'n':
		return array, nil
	case f.records != "":
		return nil, &expr.Error{Message: "response.body has no records: the member that response.records names is not an array there"}
	}
	return nil, &expr.Error{Message: "response.body has no records: it must be a JSON array, or response.records name the member that is one"}
}

// read reads a value, and returns what is in the place of the records.
func (f *Filter) read(d *jsontext.Decoder) (array jsontext.Value, err error) {
	switch {
	case f.records == "":
		array, err = d.ReadValue()
		return array.Clone(), err
	case d.PeekKind() != '{':
		return nil, d.SkipValue()
	}
	array = jsontext.Value("null") // if there is no such member
	_, err = d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var token jsontext.Token
		if token, err = d.ReadToken(); err != nil || token.String() != f.records {
			err = cmp.Or(err, d.SkipValue())
		} else if array, err = d.ReadValue(); err == nil {
			array = array.Clone()
		}
	}
	if err == nil {
		_, err = d.ReadToken()
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
