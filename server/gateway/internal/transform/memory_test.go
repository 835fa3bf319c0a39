package transform

import (
	"runtime"
	"strings"
	"testing"
)

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
