package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const output = `{"files": [{"file_name": "a.go", "mutations": [
	{"type": "CONDITIONALS_BOUNDARY", "status": "LIVED", "line": 2, "column": 7},
	{"type": "ARITHMETIC_BASE", "status": "KILLED", "line": 1, "column": 1},
	{"type": "ARITHMETIC_BASE", "status": "TIMED OUT", "line": 1, "column": 1},
	{"type": "ARITHMETIC_BASE", "status": "NOT COVERED", "line": 1, "column": 1},
	{"type": "ARITHMETIC_BASE", "status": "NOT VIABLE", "line": 1, "column": 1}]}]}`

var lives = mutant{"host/x/a.go", "CONDITIONALS_BOUNDARY", 6, "if a < b {"}

func parsed(t *testing.T) *found {
	t.Helper()
	f, err := parseOutput([]byte(output), "host/x", func(name string) ([]string, error) {
		if name != "host/x/a.go" {
			t.Errorf("it reads %s", name)
		}
		return []string{"func f() {", "\tif a < b {"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGremlinsFindings(t *testing.T) {
	want := &found{dir: "host/x", killed: 1, timedOut: 1, unviable: 1, lived: []survivor{{lives, 2}}}
	if diff := cmp.Diff(want, parsed(t), cmp.AllowUnexported(found{}, mutant{}, survivor{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", `{"files": [{"file_name": "a.go", "mutations": [{"status": "LIVED", "line": 3}]}]}`} {
		if _, err := parseOutput([]byte(bad), "host/x", func(string) ([]string, error) { return []string{"one", "two"}, nil }); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// The command fails for a mutation that no test notices and that is not listed, and for one that is listed and noticed.
func TestReport(t *testing.T) {
	gone := lives
	gone.text = "if a < c {"
	elsewhere := mutant{file: "host/x/y/a.go"}
	for _, tt := range []struct {
		name   string
		killed int
		slow   int
		known  map[mutant]string
		good   bool
		want   string
	}{
		{"all known", 20, 0, map[mutant]string{lives: "equal", elsewhere: "of another package"}, true, "95.5 % noticed: 21 of 22 (1 took too long, 0 did not end; 1 more do not compile or are in other parts)"},
		{"a new one", 20, 0, nil, false, "no test notices: host/x/a.go CONDITIONALS_BOUNDARY 6: if a < b { (line 2)"},
		{"one that is gone", 20, 0, map[mutant]string{lives: "equal", gone: "equal"}, false, "is noticed now: host/x/a.go CONDITIONALS_BOUNDARY 6: if a < c {"},
		{"a busy machine", 20, 6, map[mutant]string{lives: "equal"}, false, "more than 20 % of these took too long"},
		{"too many", 7, 0, map[mutant]string{lives: "equal"}, false, "less than 90 %"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := parsed(t)
			f.killed = tt.killed
			f.timedOut += tt.slow
			var out strings.Builder
			if good := f.report(&out, tt.known, true); good != tt.good || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%t, and it says\n%s", good, &out)
			}
		})
	}
}

func TestSurvivorsHaveReasons(t *testing.T) {
	known, err := parseSurvivors("# for people\n\n" + lives.String() + "\n    They are\n    never equal.\n")
	if err != nil || known[lives] != "They are never equal." || len(known) != 1 {
		t.Errorf("known = %v, err = %v", known, err)
	}
	for name, bad := range map[string]string{
		"no reason": lives.String() + "\n", "twice": lives.String() + "\n  a\n" + lives.String() + "\n  b\n", "no column": "a.go KIND: text\n  why\n", "no text": "a.go KIND 3\n  why\n",
	} {
		if _, err := parseSurvivors(bad); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
