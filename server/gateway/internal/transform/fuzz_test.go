package transform

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/testworld"
)

// No source and no document causes a panic, invalid JSON or an error with a value in it.
func FuzzRun(f *testing.F) {
	for _, source := range []string{
		"{{ user.email }}", "a{{ {'a': {'b': 1}}}}}", "response.body.items[0].n ?? 'x'", "map(response.body, ({a: #, b: .c?.d[1:]}))",
		"let x = response.body; sortBy(x, .n, 'desc') | filter(# matches '^a')", "default(user.last_name, 'ü' + 'x')[1:-1]", "1 < 2 < 3 ?: 4",
		"record.a in [1, 'x'] && not (record.b contains 'c')", "-record ** 2 % 3 == 9223372036854775807 * 2", "join(split(body_text, ''), 'x')",
		"sum(response.body) + max(response.body, 1) - len(json_encode(response))", "response.headers['a'].b", "{{ if true { b'x' } else { #acc } }}", "all([1], any([2], # > #index))",
	} {
		f.Add(source, []byte(`{"items":[{"n":"hunter2"}],"n":1.10,"big":12345678901234567890}`))
		f.Add(source, []byte(`[1,"hunter2",[null,1e400],{"c":{"d":"hunter2"}}]`))
	}
	f.Fuzz(func(t *testing.T, source string, document []byte) {
		in := testInput()
		in.Response.Body = document
		in.Request.Body = document
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		check := func(err error) {
			var e *expr.Error
			if err == nil {
				return
			}
			if !errors.As(err, &e) || strings.Contains(err.Error(), "hunter2") && !strings.Contains(source, "hunter2") {
				t.Errorf("%q over %q: %v", source, document, err)
			}
		}
		for _, compile := range []func(string) (*Body, []*expr.Error){new(Patterns).CompileRequest, new(Patterns).CompileResponse} {
			if b, problems := compile(source); len(problems) == 0 {
				out, isJSON, err := b.Run(ctx, in)
				check(err)
				if isJSON && !jsontext.Value(out).IsValid() {
					t.Errorf("%q over %q results in %q", source, document, out)
				}
			}
		}
		if filter, problems := new(Patterns).CompileFilter(source, ""); len(problems) == 0 {
			out, err := filter.Run(ctx, in)
			check(err)
			if err == nil && !in.NoRecords {
				wantSubset(t, document, out)
			}
		}
	})
}

// The result of a filter is its input without some of the records.
func FuzzFilter(f *testing.F) {
	for _, document := range []string{
		`[]`, `[1, 2 ,3.0]`, `{"a":[{"n":1},{"n":2}],"total":2}`, ` { "x" : "]" , "l" : [ [1] , {"n":"\u0061"} ] } `, `{"a":[],"b":[]}`, `{"a":[1,]}`, `[1 2]`,
		`{"a":[1],"a":[2]}`, `[{"n":1,"n":2}]`, `[1]x`, `null`, `"["`, `{"a":{"b":[1]}}`,
	} {
		f.Add([]byte(document))
	}
	var filters []*Filter
	for _, source := range []string{"true", "false", "uuid() < '8'", "record == 1", "record?.n == 1", "len(json_encode(record)) % 2 == 0"} {
		filter, problems := new(Patterns).CompileFilter(source, "")
		if len(problems) > 0 {
			f.Fatal(problems)
		}
		filters = append(filters, filter)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		in := testInput()
		in.Response.Body = document
		calls := 0
		in.UUID = func() (string, error) { calls++; return string(rune('0' + calls*7%10)), nil }
		for _, filter := range filters {
			before := bytes.Clone(document)
			out, err := filter.Run(t.Context(), in)
			if !bytes.Equal(before, document) {
				t.Fatal("the answer was changed")
			}
			if err == nil && in.NoRecords {
				document = []byte("[]")
			}
			if err == nil {
				wantSubset(t, document, out)
			}
		}
	})
}

// wantSubset checks that out is in without some of the records. It does not parse in the same way as Filter.
func wantSubset(t *testing.T, in, out []byte) {
	t.Helper()
	before, whole := takeApart(t, in)
	after, rest := takeApart(t, out)
	if whole != rest {
		t.Errorf("other members changed: %q became %q", in, out)
	}
	for _, record := range after {
		for len(before) > 0 && before[0] != record {
			before = before[1:]
		}
		if len(before) == 0 {
			t.Fatalf("%q became %q", in, out)
		}
		before = before[1:]
	}
}

// takeApart returns the records of an answer, and the tokens around them.
func takeApart(t *testing.T, document []byte) (records []string, around string) {
	t.Helper()
	if !jsontext.Value(document).IsValid() {
		t.Fatalf("not JSON: %q", document)
	}
	d := jsontext.NewDecoder(bytes.NewReader(document))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return records, around
		}
		around += token.String() + " "
		if token.Kind() != '[' || d.StackDepth() > 2 {
			if d.StackDepth() > 1 && token.Kind() == '{' { // an object that is not a record
				for d.StackDepth() > 1 {
					token, _ := d.ReadToken()
					around += token.String() + " "
				}
			}
			continue
		}
		for d.PeekKind() != ']' {
			record := testworld.Must(d.ReadValue())(t)
			records = append(records, record.String())
		}
	}
}
