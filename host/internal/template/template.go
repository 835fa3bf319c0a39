// Package template renders text with {{ expression }} in it.
//
// Expressions are written in the language of github.com/expr-lang/expr, whose lexer and parser read them. Only nodes of
// an allow-list are accepted, and turned into closures with known types; expr's compiler and virtual machine are not
// used. So whatever can be wrong with an expression shows when it is compiled, except for what the values
// decide; each intermediate text has a size limit; an error never quotes a value; and get_secret('x') alone costs no
// more than the call of a function.
package template

import (
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/exprscan"
)

// Limits of one template.
const (
	MaxSource      = 64 << 10 // bytes of source
	MaxExpressions = exprscan.MaxExpressions
	MaxTokens      = 512     // tokens in an expression; bounds nesting too
	MaxText        = 1 << 20 // bytes of a rendered template, and of each value on the way to it
	MaxWork        = 8 << 20 // bytes of text that functions and operators take, in a template or in all of an object
)

// Template is compiled text with expressions. It is safe for concurrent use.
type Template struct {
	source   string
	segments []segment
	parts    int // how many Parts rendering gives, for allocation
	names    Names
}

// segment is literal text, or an expression when run is set.
type segment struct {
	text   string // literal text; of an expression its source with the braces
	run    eval
	secret bool // the expression calls get_secret
	column int  // of the expression's first brace
}

// Part is a piece of a rendered template. Text and values that are no secrets are one Part as far as they are adjacent.
type Part struct {
	Text   string
	Secret bool   // Text comes from an expression that calls get_secret, at whatever depth
	Source string // of a secret Part the expression with its braces, to be shown in its stead
}

// rendering has what expressions are evaluated with, and counts the bytes of text that they have taken. Each value is
// bounded, but a source of 64 KiB can make hundreds of the longest.
type rendering struct {
	Values
	work int
}

// pass counts what a function or an operator at a column takes.
func (r *rendering) pass(column, bytes int) *Error {
	if r.work += bytes; r.work > MaxWork {
		return &Error{Column: column, Message: "the expressions take more than 8 MiB of text in all"}
	}
	return nil
}

// Compile compiles a template. The error is an *Error, or several joined; Errors lists them.
func Compile(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, &Error{Message: "the template is longer than 64 KiB"}
	}
	t := &Template{source: source}
	pieces, problem := exprscan.Cut(source, MaxTokens)
	var errs []*Error
	var names []Names
	if problem != nil {
		errs = []*Error{{Column: problem.Column, Message: problem.Message}}
	}
	for _, p := range pieces {
		if !p.Expression {
			t.segments = append(t.segments, segment{text: p.Text})
			continue
		}
		e, expressionErrs := compileExpression(p)
		errs = append(errs, expressionErrs...)
		t.segments = append(t.segments, segment{text: "{{" + p.Text + "}}", run: e.run, secret: e.secret, column: p.Start})
		names = append(names, e.names)
	}
	t.names = Merged(names...)
	if len(errs) > 0 {
		slices.SortStableFunc(errs, func(a, b *Error) int { return a.Column - b.Column })
		return nil, join(errs)
	}
	for i, s := range t.segments {
		if i == 0 || s.secret || t.segments[i-1].secret {
			t.parts++
		}
	}
	return t, nil
}

// Source returns the text that was compiled.
func (t *Template) Source() string { return t.source }

// Literal returns the template's text when there is no expression in it.
func (t *Template) Literal() (text string, ok bool) {
	for _, s := range t.segments {
		if s.run != nil {
			return "", false
		}
	}
	return t.source, true
}

// Names returns what the template's expressions name.
func (t *Template) Names() Names {
	var n Names
	n.Merge(t.names)
	return n
}

// Secret reports whether the template's expressions name a secret.
func (t *Template) Secret() bool { return len(t.names.Secrets) > 0 }

// Render evaluates the expressions, once: text of the form {{ … }} in a value stays as it is. Empty text gives no
// Part. The error is an *Error; errors.Is finds the cause that Values.Secret or Values.UUID returned.
func (t *Template) Render(v Values) ([]Part, error) {
	parts, err := t.render(&rendering{Values: v}, nil)
	if err != nil {
		return nil, err
	}
	return parts, nil
}

// RenderURL is Render for a URL: what an expression gives is percent-encoded, so that it stands in the path segment, or
// behind the first ? of the text in the query parameter, in which the expression stands.
func (t *Template) RenderURL(v Values) ([]Part, error) {
	query := false
	parts, err := t.render(&rendering{Values: v}, func(literal, value string) string {
		if query = query || strings.Contains(literal, "?"); query {
			return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		return url.PathEscape(value)
	})
	if err != nil {
		return nil, err
	}
	return parts, nil
}

// render has escape change what each expression gives; it is told what stands between the expression and the one before.
func (t *Template) render(r *rendering, escape func(literal, value string) string) ([]Part, *Error) {
	literal := ""
	parts := make([]Part, 0, t.parts)
	size := 0
	for _, s := range t.segments {
		text := s.text
		if s.run != nil {
			value, err := s.run(r)
			if err != nil {
				return nil, err
			}
			if text = format(value); escape != nil {
				text = escape(literal, text)
			}
			literal = ""
		} else {
			literal += text
		}
		if size += len(text); size > MaxText {
			return nil, &Error{Column: s.column, Message: "the rendered text is longer than 1 MiB"}
		}
		last := len(parts) - 1
		switch {
		case s.secret:
			parts = append(parts, Part{Text: text, Secret: true, Source: s.text})
		case text == "":
		case last >= 0 && !parts[last].Secret:
			parts[last].Text += text
		default:
			parts = append(parts, Part{Text: text})
		}
	}
	return parts, nil
}

// Join returns the whole text of parts, secrets included.
func Join(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
