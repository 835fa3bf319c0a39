package transform

import (
	"context"
	"errors"
	"runtime"
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
		in := testInput()
		in.Response.Body = []byte("{" + c.body + "}")
		if _, _, err := runBody(t, new(Patterns).CompileResponse, c.source, in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
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
		compile := func() []*expr.Error {
			_, problems := all.CompileFilter("record matches 'a{1000}b{1000}c{1000}'", "")
			return problems
		}
		if n%2 == 0 {
			compile = func() []*expr.Error {
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

// A value that an expression names for each element of a list is copied once.
func TestInputCopies(t *testing.T) {
	for name, source := range map[string]string{
		"body": "len(map(response.body, body_text))", "values": "len(map(response.body, request.query_values.page))",
	} {
		in := testInput()
		in.Request.Body = make([]byte, 1<<20)
		in.Request.Query["page"] = make([]string, 10_000)
		in.Response.Body = []byte("[1" + strings.Repeat(",1", 999) + "]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got, _, err := runBody(t, new(Patterns).CompileResponse, source, in); got != "1000" || err != nil {
			t.Errorf("%s: got = %s, err = %v", name, got, err)
		}
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 16<<20 {
			t.Errorf("%s: %d MiB were made", name, made>>20)
		}
	}
}

// threats.md 57: the memory of a run is bounded, however large the body is.
func TestRunMemoryBound(t *testing.T) {
	const most = 128 << 20
	for _, c := range []struct{ source, record string }{
		{"split(response.body.s, '')", "0"},
		{"map(split(response.body.s, ''), upper(#))", "0"},
		{"map(split(response.body.s, ''), [#, #, #, #])", "0"},
		{"map(split(response.body.s, ''), ({a: #}))", "0"},
		{"map(split(response.body.s, ''), 1.5 * 2.5)", "0"},
		{"sortBy(split(response.body.s, ''), 1)", "0"},
		{"response.body", "1.10"},
		{"response.body", `{"a":1.10}`},
		{"[response.body, split(response.body.s, '')]", `{"a":1}`},
		{"[response.body, map(response.body.l, ({a: [#]}))]", "{}"},
	} {
		t.Run(c.source+" of "+c.record, func(t *testing.T) {
			refused := false
			for n := 3 << 17; n <= 3<<20 && !refused; n *= 2 {
				body := `{"s":"` + strings.Repeat("x", n) + `","l":[` + strings.Repeat(c.record+",", n/4) + c.record + "]}"
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				in := testInput()
				in.Response.Body = []byte(body)
				b, problems := new(Patterns).CompileResponse(c.source)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				r := newRun(t.Context(), in)
				value, err := r.Evaluate(b.pieces[0].Expression)
				runtime.GC()
				runtime.ReadMemStats(&after)
				if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > most {
					t.Errorf("with %d, %d MiB are kept", n, kept>>20)
				}
				refused = err != nil
				runtime.KeepAlive([]any{r, value, body, in})
			}
			if !refused {
				t.Error("nothing is refused")
			}
		})
	}
}
