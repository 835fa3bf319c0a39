package problem_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

func TestProblemLine(t *testing.T) {
	for want, p := range map[string]problem.Problem{
		" is empty":        {Message: "is empty"},
		" a.b: is empty":   {Path: "a.b", Message: "is empty"},
		"3:10: is empty":   {Line: 3, Column: 10, Message: "is empty"},
		"3:1: a: is empty": {Line: 3, Column: 1, Path: "a", Message: "is empty"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Columns count characters, also if a text begins in the middle of one.
func TestPlacesBehindATextCountCharacters(t *testing.T) {
	from := problem.Place{Line: 3, Column: 5}
	for text, want := range map[string]problem.Place{
		"": from, "abc": {Line: 3, Column: 8}, "é👋": {Line: 3, Column: 7}, "\x8bé": {Line: 3, Column: 6},
		"ab\n": {Line: 4, Column: 1}, "ab\n\ncd": {Line: 5, Column: 3},
	} {
		if got := from.Advance([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A collector keeps at most Max problems, and counts the others.
func TestACollectorHasABound(t *testing.T) {
	for most, more := range map[int]int{0: 0, 1: 3, 3: 1, 4: 0, 5: 0} {
		c := problem.Collector{Max: most}
		c.Wrong("a", "is %d", 1)
		c.At(problem.Place{Line: 1, Column: 2}, "b", "is %d", 2)
		c.Wrong("c", "is %d", 3)
		if !c.Skip() {
			c.Wrong("d", "is %d", 4)
		}
		want := []problem.Problem{{Path: "a", Message: "is 1"}, {Line: 1, Column: 2, Path: "b", Message: "is 2"}, {Path: "c", Message: "is 3"}, {Path: "d", Message: "is 4"}}
		if got := fmt.Sprint(c.Problems); got != fmt.Sprint(want[:4-more]) || c.More != more {
			t.Errorf("of at most %d: %s and %d more", most, got, c.More)
		}
	}
}

func TestPaths(t *testing.T) {
	var root *problem.Path
	long, longest := strings.Repeat("a", 100), strings.Repeat("é", 40)
	for want, path := range map[string]*problem.Path{
		"":                       root,
		"[0]":                    root.Item(0),
		"a":                      root.Member("a"),
		"a.b-c_D[12].e":          root.Member("a").Member("b-c_D").Item(12).Member("e"),
		`a["b c"].d`:             root.Member("a").Member("b c").Member("d"),
		`[""]`:                   root.Member(""),
		`["\n\""]`:               root.Member("\n\""),
		long:                     root.Member(long),
		`["` + long[:40] + `"…]`: root.Member(long + "a"),
		`["` + longest + `"]`:    root.Member(longest),
		`["` + longest + `"…]`:   root.Member(longest + "e"),
	} {
		if got := path.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
