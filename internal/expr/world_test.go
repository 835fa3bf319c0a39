package expr

import (
	"context"
	"math"
	"testing"
)

// bodyLimits are similar to the limits of the gateway.
var bodyLimits = &Limits{
	Steps: 8 << 20, TooManySteps: "too many steps", Made: 64 << 20, Text: math.MaxInt, JSON: 8 << 20, TooLong: "the result is longer than 8 MiB",
	Values: 1 << 19, Depth: 100,
}

// world provides a JSON body, and a language in which response.body is its value.
type world struct {
	Values
	body []byte
	read any
}

func (w *world) language() *Language {
	return &Language{
		Bodies: true, UnknownFunction: func(string) string { return "" },
		Group: func(path string) bool { return path == "response" },
		Name: func(group, name string) (*Name, string) {
			if group+"."+name != "response.body" {
				return nil, "unknown name"
			}
			return &Name{Kind: Any, Get: func(r *Run) (_ any, err *Error) {
				if w.read == nil {
					w.read, err = r.Decode(w.body)
				}
				return w.read, err
			}}, ""
		},
	}
}

func compileWhole(source string, l *Language) (*Expression, []*Error) {
	p, problem := Whole(source, 4096)
	if problem != nil {
		return nil, []*Error{problem}
	}
	return l.Compile(p, new(Patterns).Source())
}

// evaluate evaluates an expression over a body. The run begins with used steps. evaluate returns it after the evaluation.
func evaluate(ctx context.Context, t *testing.T, used int, source, body string) (*Run, any, *Error) {
	t.Helper()
	w := &world{body: []byte(body)}
	e, problems := compileWhole(source, w.language())
	if len(problems) > 0 {
		t.Fatalf("%s: %v", source, problems)
	}
	r := NewBodyRun(ctx, w, bodyLimits)
	r.steps = used
	if w, ok := ctx.(*watched); ok {
		w.run = &r
	}
	value, err := r.Evaluate(e)
	return &r, value, err
}
