package importer

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// A record that is too long is skipped, and no other one.
func TestOversizedRecord(t *testing.T) {
	const begin, end = `{"type":"article","id":"1"}`, `{"type":"article","id":"3"}`
	for name, test := range map[string]struct {
		r       io.Reader
		records int
		want    string
	}{
		"line":  {endless(begin+"\n"+`{"type":"article","id":"2","body":"`, "x", `"}`+"\n"+end, 40<<20), 2, "f:2:1: this record has more than 2 MiB, which is too much: shorten it"},
		"array": {endless("["+begin+",\n"+`{"type":"article","id":"2","body":"`, "x", `"},`+"\n"+end+"]", 40<<20), 2, "f:2:1: this record has more than 2 MiB, which is too much: shorten it"},
		"array without a bracket": {
			endless("["+begin+",\n"+`{"type":"article","id":"2",`, `{"id":"3"},`, "]", 40<<20), 1,
			"f:2:28: this is no JSON: object member name must be a string; nothing after this can be read in an array; good records before it: 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w memory
			var problems []string
			_, err := Import(t.Context(), &w, "f", test.r, Options{Problem: func(p Problem) { problems = append(problems, p.String()) }})
			if err != nil || len(w.records) != test.records || len(problems) != 1 || problems[0] != test.want {
				t.Errorf("%v: %q, %q; want %s", err, w.records, problems, test.want)
			}
		})
	}
	// A long record takes no more memory than a short one.
	for _, before := range []string{"", "["} {
		var began, ended runtime.MemStats
		runtime.ReadMemStats(&began)
		_, err := Import(t.Context(), nil, "f", endless(before+`{"type":"article","id":"2","body":"`, "x", `"}`, 96<<20), Options{DryRun: true})
		if runtime.ReadMemStats(&ended); err != nil || ended.TotalAlloc-began.TotalAlloc > 120<<20 {
			t.Errorf("%v: %d MiB were allocated", err, (ended.TotalAlloc-began.TotalAlloc)>>20)
		}
	}
	var w memory
	long := `{"type":"article","id":"1","body":"` + strings.Repeat("x", maxRecord-37) + `"}`
	if len(long) != maxRecord {
		t.Fatal(len(long))
	}
	for _, text := range []string{long, long + "\n", "[" + long + "]"} {
		if result, problems := importing(t, &w, text); result.Articles != 1 || len(problems) != 0 {
			t.Errorf("a record of %d bytes: %q", maxRecord, problems)
		}
	}
}
