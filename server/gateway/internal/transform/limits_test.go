package transform

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/expr"
)

// threats.md 49: no answer makes the gateway work or allocate without bound.
func TestHostileAnswers(t *testing.T) {
	list := func(n int) string { return `"l":[` + strings.Repeat("1,", n-1) + `1]` }
	long := `"s":"` + strings.Repeat("x", 1<<20) + `"`
	for _, c := range []struct{ name, source, body, want string }{
		{"nested rounds", "all(response.body.l, all(response.body.l, true))", list(100_000), "more than 8388608 steps"},
		{"a long text in each round", "map(response.body.l, response.body.s + '.')", list(1000) + "," + long, "texts, objects and lists of more than 64 MiB"},
		{"join", "join(map(response.body.l, response.body.s))", list(1000) + "," + long, "texts, objects and lists of more than"},
		{"replace", "replace(response.body.s, 'x', response.body.s)", long, "texts, objects and lists of more than"},
		{"JSON of one value over and over", "map(response.body.l, response.body.s)", list(1000) + "," + long, "longer than 8 MiB"},
		{"an untouched value over and over", "map(response.body.l, response.body)", list(1000) + "," + long, "longer than 8 MiB"},
		{"lists in lists", "map(response.body.l, map(response.body.l, 1))", list(10_000), "texts, objects and lists of more than"},
		{"objects", "map(response.body.l, ({a: 1}))", list(500_000), "texts, objects and lists of more than"},
		{"a document over and over", "map(response.body.l, from_json('[[[[]]]]'))", list(900_000), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := testInput()
			in.Response.Body = []byte("{" + c.body + "}")
			if _, _, err := runBody(t, new(Patterns).CompileResponse, c.source, in); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}

	t.Run("a body of 8 MiB and one of a byte more", func(t *testing.T) {
		in := testInput()
		in.Response.Body = []byte(`"` + strings.Repeat("x", MaxOutput/2) + `"`)
		const twice = "{{ response.body }}{{ response.body }}"
		if body, _, err := runBody(t, new(Patterns).CompileResponse, twice, in); err != nil || len(body) != MaxOutput {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		if body, _, err := runBody(t, new(Patterns).CompileResponse, twice+"x", in); err == nil || !strings.Contains(err.Error(), "longer than 8 MiB") {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})

	t.Run("the context ends it", func(t *testing.T) {
		in := testInput()
		in.Response.Body = []byte("{" + list(3000) + "}")
		ctx, cancel := context.WithCancel(t.Context())
		in.UUID = func() (string, error) { cancel(); return "x", nil }
		b, _ := new(Patterns).CompileResponse("all(response.body.l, all(response.body.l, uuid() == 'x'))")
		if _, _, err := b.Run(ctx, in); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, _, err := b.Run(ctx, in); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// threats.md 56: the limit of patterns applies to all patterns of a template, and of a file.
func TestPatternBound(t *testing.T) {
	const one = "{{ body_text matches 'a{1000}' }}"
	if _, problems := new(Patterns).CompileRequest(strings.Repeat(one, 4)); len(problems) > 0 {
		t.Error(problems)
	}
	if _, problems := new(Patterns).CompileRequest(strings.Repeat(one, 5)); len(problems) != 1 {
		t.Error(problems)
	}
	all := &Patterns{}
	for n := range expr.MaxPrograms/3003 + 1 {
		compile := func() []*Problem {
			_, problems := all.CompileFilter("record matches 'a{1000}b{1000}c{1000}'", "")
			return problems
		}
		if n%2 == 0 {
			compile = func() []*Problem {
				_, problems := all.CompileResponse("body_text matches 'a{1000}b{1000}c{1000}'")
				return problems
			}
		}
		problems := compile()
		if refused := len(problems) == 1 && strings.Contains(problems[0].Message, "all patterns together"); refused != (n == expr.MaxPrograms/3003) {
			t.Fatalf("%d times: %v", n+1, problems)
		}
	}
}
