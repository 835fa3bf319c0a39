package main

import (
	"fmt"
	"strings"
	"testing"
)

// Each mutation is in exactly one part, and the parts are about equal.
func TestParts(t *testing.T) {
	const of, all = 10, 1000
	counts := make([]int, of)
	for i := range all {
		in := 0
		for k := range counts {
			p := part{uint64(k + 1), of}
			if p.contains(fmt.Appendf(nil, "source %d", i)) {
				counts[k]++
				in++
			}
		}
		if in != 1 || !(&part{}).contains(nil) {
			t.Fatalf("mutation %d is in %d parts", i, in)
		}
	}
	for k, n := range counts {
		if n < all/of/2 || n > all/of*2 {
			t.Errorf("part %d has %d of %d", k+1, n, all)
		}
	}
}

func TestPart(t *testing.T) {
	for _, text := range []string{"", "3", "0/10", "11/10", "3/0", "3/10x", "-1/10", "03/10"} {
		var p part
		if err := p.Set(text); err == nil || !strings.Contains(err.Error(), "3/10") {
			t.Errorf("%q: err = %v", text, err)
		}
	}
	var p part
	if err := p.Set("3/10"); err != nil || p != (part{3, 10}) || p.String() != "3/10" {
		t.Errorf("%v: err = %v", p, err)
	}
}

// The results of a part say nothing about survivors in other parts.
func TestAPartDoesNotMissSurvivorsOfOthers(t *testing.T) {
	known := map[mutant]string{{file: "a/b.go", kind: "X", column: 1, text: "if a < b {"}: "a reason"}
	f := &found{dir: "a", killed: 10}
	var out strings.Builder
	if !f.report(&out, known, false) || f.report(&out, known, true) {
		t.Error(out.String())
	}
}
