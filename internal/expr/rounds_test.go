package expr

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

func TestRoundsOfTemplates(t *testing.T) {
	for name := range rounds {
		table{{name + "([1], true)", "column 1: unknown function " + problem.Quote(name) + ": there are others"}}.refused(t, ofTemplates)
	}
}

// A round takes a step, and another for each sixteen nodes of its expression.
func TestStepsOfARound(t *testing.T) {
	steps := func(source string) int {
		r, _, err := evaluate(t.Context(), t, 0, source, "[1,2,3,4,5,6,7,8,9,10]")
		if err != nil {
			t.Fatalf("%s: err = %v", source, err)
		}
		return r.steps
	}
	least := steps("count(body, true)")
	for nodes, want := range map[int]int{15: 0, 16: 1, 31: 1, 32: 2} {
		if got := steps("count(body, " + strings.Repeat("!", nodes-1) + "true)"); got != least+10*want {
			t.Errorf("ten rounds with %d nodes take %d steps, want %d more than %d", nodes, got, 10*want, least)
		}
	}
}
