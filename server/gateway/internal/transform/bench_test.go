package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func records(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"id":%d,"owner":"user%d@example.com","title":"A note of some length","price":%d.50,"tags":["a","b"],"meta":{"created":"2026-01-02T03:04:05Z"}}`, i, i%10, i)
	}
	return []byte(`{"total":` + fmt.Sprint(n) + `,"items":[` + b.String()[1:] + `]}`)
}

func BenchmarkFilter(b *testing.B) {
	filter, problems := new(Patterns).CompileFilter("record.owner == user.email", "items")
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	in := testInput()
	in.User.Email = "user3@example.com"
	in.Response.Body = records(1000)
	b.SetBytes(int64(len(in.Response.Body)))
	b.ReportAllocs()
	for b.Loop() {
		testworld.Must(filter.Run(b.Context(), in))(b)
	}
}

func BenchmarkBody(b *testing.B) {
	for _, c := range []struct{ name, source string }{
		{"one member", "response.body.total"},
		{"untouched", "response.body.items"},
		{"new records", "map(response.body.items, ({id: .id, price: .price}))"},
		{"template without the answer", `{"by":{{ json_encode(user.email) }}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			body, problems := new(Patterns).CompileResponse(c.source)
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			in := testInput()
			in.Response.Body = records(1000)
			b.SetBytes(int64(len(in.Response.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := body.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
