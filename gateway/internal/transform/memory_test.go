package transform

import (
	"runtime"
	"strings"
	"testing"
)

// What is named in each round through a list is there once.
func TestInputIsNotCopiedForEachRound(t *testing.T) {
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
			t.Errorf("%s: %s, %v", name, got, err)
		}
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 16<<20 {
			t.Errorf("%s: %d MiB were made", name, made>>20)
		}
	}
}
