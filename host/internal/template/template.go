// Package template renders text with {{ expression }} in it. Package expr has the expressions.
package template

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
)

// Limits of one template.
const (
	MaxSource      = 64 << 10 // bytes of source
	MaxExpressions = expr.MaxExpressions
	MaxTokens      = 512     // tokens in an expression; bounds nesting too
	MaxText        = 1 << 20 // bytes of a rendered template, and of each value on the way to it
	MaxWork        = 8 << 20 // bytes that functions and operators take and make, in a template or in all of an object
)

// limits are those of a rendering. Each value is bounded, but a source of 64 KiB can make hundreds of the longest.
var limits = &expr.Limits{
	Steps: MaxWork, TooManySteps: "the expressions take more than 8 MiB of text in all",
	Text: MaxText, JSON: MaxText, TooLong: "the text is longer than 1 MiB",
}

// Template is compiled text with expressions. It is safe for concurrent use.
type Template struct {
	source   string
	segments []segment
	parts    int // how many Parts rendering gives, for allocation
	names    Names
}

// segment is literal text, or an expression when value is set.
type segment struct {
	text   string // literal text; of an expression its source with the braces
	value  *expr.Expression
	column int // of the expression's first brace
}

// Part is a piece of a rendered template. Text and values that are no secrets are one Part as far as they are adjacent.
type Part struct {
	Text   string
	Secret bool   // Text comes from an expression that calls get_secret, at whatever depth
	Source string // of a secret Part the expression with its braces, to be shown in its stead
}

// Compile compiles a template. When there are errors, there is no template.
func Compile(source string) (*Template, []*Error) {
	if len(source) > MaxSource {
		return nil, []*Error{{Message: "the template is longer than 64 KiB"}}
	}
	t := &Template{source: source}
	pieces, problem := expr.Cut(source, MaxTokens)
	var errs []*Error
	if problem != nil {
		errs = append(errs, problem)
	}
	var named []*expr.Expression
	for _, p := range pieces {
		if !p.Expression {
			t.segments = append(t.segments, segment{text: p.Text})
			continue
		}
		e, problems := language.Compile(p, nil)
		if errs = append(errs, problems...); e == nil {
			continue
		}
		if !e.Kind.Is(expr.Scalar) {
			errs = append(errs, &Error{Column: e.Column, Message: "an expression gives a text, a number or a boolean"})
		}
		t.segments = append(t.segments, segment{text: "{{" + p.Text + "}}", value: e, column: p.Start})
		named = append(named, e)
	}
	if len(errs) > 0 {
		return nil, expr.Sorted(errs)
	}
	t.names = namesOf(named)
	for i, s := range t.segments {
		if i == 0 || s.secret() || t.segments[i-1].secret() {
			t.parts++
		}
	}
	return t, nil
}

// secret reports whether the segment is an expression that calls get_secret.
func (s *segment) secret() bool { return s.value != nil && len(s.value.Secrets) > 0 }

// Source returns the text that was compiled.
func (t *Template) Source() string { return t.source }

// Literal returns the template's text when there is no expression in it.
func (t *Template) Literal() (text string, ok bool) {
	for _, s := range t.segments {
		if s.value != nil {
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
	r := &rendering{Run: expr.NewRun(v, limits)}
	return t.render(&r.Run, r.first[:0], nil)
}

// RenderURL is Render for a URL: what an expression gives is percent-encoded, so that it stands in the path segment, or
// behind the first ? of the text in the query parameter, in which the expression stands.
func (t *Template) RenderURL(v Values) ([]Part, error) {
	query := false
	r := &rendering{Run: expr.NewRun(v, limits)}
	return t.render(&r.Run, r.first[:0], func(literal, value string) string {
		if query = query || strings.Contains(literal, "?"); query {
			return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		return url.PathEscape(value)
	})
}

// rendering is a run with room for the parts that most templates come to.
type rendering struct {
	expr.Run
	first [2]Part
}

// render appends to parts. It has escape change what each expression gives; that is told what stands between the expression
// and the one before.
func (t *Template) render(r *expr.Run, parts []Part, escape func(literal, value string) string) ([]Part, error) {
	literal, size := "", 0
	if cap(parts) < t.parts {
		parts = make([]Part, 0, t.parts)
	}
	for _, s := range t.segments {
		text := s.text
		if s.value != nil {
			value, err := r.Evaluate(s.value)
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
		case s.secret():
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

// format returns a rendered value as text. Numbers are in the form that JSON allows (RFC 8785 section 3.2.2.3).
func format(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		return formatFloat(value)
	case bool:
		return strconv.FormatBool(value)
	}
	return "" // an expression gives nothing else
}

func formatFloat(f float64) string { return string(jsontext.AppendFloat(nil, f+0, 64)) } // no "-0"
