// Package transform runs a connector's expressions over what a caller sends and an API answers: it shapes bodies, and
// leaves out records that a user may not see. Package expr has the expressions; secrets are not to be had in these.
//
// # Numbers, and the order of members
//
// A JSON number is an integer when it is written as one and fits into 64 bits, otherwise a float64, and what neither of
// them can hold (an integer of twenty digits, 1e400) is a number that can be passed on and compared with ==, only. An
// object or array that an expression passes on as a whole comes out byte for byte, as does a number that it passes on as
// a member of one: 1.10 stays 1.10 in {price: response.body.price}. Once it goes through let or a calculation it is 1.1. An integer and a float64 are compared
// as float64.
// Objects that an expression makes have their members in the order of the source.
package transform

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// Limits of one source, and of what it does in one run.
const (
	MaxSource      = 64 << 10 // bytes of source
	MaxExpressions = expr.MaxExpressions
	MaxTokens      = 4096     // tokens in an expression; bounds nesting too
	MaxOutput      = 8 << 20  // bytes of a shaped body
	MaxText        = 64 << 20 // bytes of all texts, objects and lists that functions, +, { } and [ ] make
	MaxDepth       = 100      // nesting of JSON
	MaxValues      = 1 << 19  // values of JSON that are decoded, some 100 bytes each; see run.read
	MaxSteps       = 8 << 20  // calls and rounds, and what texts and patterns take; see [expr.Limits]
)

// limits are those of a run.
var limits = &expr.Limits{
	Steps: MaxSteps, TooManySteps: fmt.Sprintf("more than %d steps: it goes through too long lists or texts", MaxSteps),
	Made: MaxText, Text: math.MaxInt, JSON: MaxOutput, TooLong: tooMuchOutput, Values: MaxValues, Depth: MaxDepth,
}

const tooMuchOutput = "the result is longer than 8 MiB"

// Problem is one thing that is wrong with a source.
type Problem = expr.Error

// Patterns compiles sources that are served together, and bounds what all of their patterns of matches take. The zero
// value is ready for use. It is not safe for concurrent use.
type Patterns struct{ all expr.Patterns }

// Input holds the values of expressions. Functions may be nil when no expression calls them.
type Input struct {
	User     *host.User // nil when the request has none
	Variable func(name string) (value string, ok bool)
	Now      func() time.Time
	UUID     func() (string, error)
	Request  Request
	Response Response
}

// Request is the caller's. Header holds no more than expressions may see.
type Request struct {
	Method, Path string
	Query        url.Values
	Header       http.Header
	Body         []byte
}

// Response is the API's. Its body is JSON when Content-Type says so, and text otherwise.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte
}

// Body makes a body. It is safe for concurrent use.
type Body struct {
	pieces   []part
	template bool // otherwise pieces is one expression, whose value is the body
}

// part is literal text, or an expression.
type part struct {
	text string
	*expr.Expression
}

// CompileRequest compiles the template of an outgoing body: text with {{ expression }}. It knows user, tenant_id,
// request and body_text. When there are problems, there is no Body.
func (all *Patterns) CompileRequest(source string) (*Body, []*Problem) {
	return all.compileBody(source, true, inRequest)
}

// CompileResponse compiles what makes the answer's body: a template when the source holds {{, otherwise one expression.
// It knows response besides what CompileRequest knows. When there are problems, there is no Body.
func (all *Patterns) CompileResponse(source string) (*Body, []*Problem) {
	return all.compileBody(source, strings.Contains(source, "{{"), inResponse)
}

// cut splits a template at its expressions. A source that is no template is one expression.
func cut(source string, template bool) (pieces []expr.Piece, problems []*Problem) {
	if len(source) > MaxSource {
		return nil, []*Problem{{Message: "the source is longer than 64 KiB"}}
	}
	var problem *expr.Error
	if template {
		pieces, problem = expr.Cut(source, MaxTokens)
	} else {
		pieces = make([]expr.Piece, 1)
		pieces[0], problem = expr.Whole(source, MaxTokens)
	}
	if problem != nil {
		problems = []*Problem{problem}
	}
	return pieces, problems
}

func (all *Patterns) compileBody(source string, template bool, where place) (*Body, []*Problem) {
	pieces, problems := cut(source, template)
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

// Run returns the body. A template's values stand in it as they are: nothing is quoted for the JSON around them, which
// is what json_encode is for. An expression's value is the body when it is text; otherwise the body is its JSON, and
// isJSON is set. The limits bound memory and work. For time, the context should have a deadline, which is looked at at
// least once in 1024 steps. An *expr.Error says what went wrong; errors.Is finds the context's error, and that of
// Input.UUID.
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
