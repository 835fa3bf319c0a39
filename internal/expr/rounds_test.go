package expr

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

// records is a body with a list of objects.
const records = `{"items":[{"n":"b","v":2,"open":true},{"n":"a","v":1,"open":false},{"n":"c","v":3,"open":true}],"list":[3,1,2],"text":"x","object":{},"none":null}`

func TestRounds(t *testing.T) {
	table{
		{"map(body.items, .n)", "['b', 'a', 'c']"},
		{"map(body.list, # * 10)", "[30, 10, 20]"},
		{"map(body.items, ({name: .n}))", "[{name: 'b'}, {name: 'a'}, {name: 'c'}]"},
		{"map(body.list, #index)", "[0, 1, 2]"},
		{"map(body.list, # + #index)", "[3, 2, 4]"},
		{"map([], 1)", "[]"},
		{"body.list | map(# + 1)", "[4, 2, 3]"},

		{"map(filter(body.items, .open), .n)", "['b', 'c']"},
		{"filter(body.list, # > 1)", "[3, 2]"},
		{"filter(body.list, false)", "[]"},
		{"filter([], true)", "[]"},

		{"all(body.list, # > 0)", "true"},
		{"all(body.list, # > 1)", "false"},
		{"all([], false)", "true"},
		{"any(body.list, # > 2)", "true"},
		{"any(body.list, # > 3)", "false"},
		{"any([], true)", "false"},
		{"none(body.list, # > 3)", "true"},
		{"none(body.list, # > 2)", "false"},
		{"none([], true)", "true"},
		{"one(body.list, # > 2)", "true"},
		{"one(body.list, # > 1)", "false"},
		{"one(body.list, # > 3)", "false"},
		{"one([], true)", "false"},

		{"count(body.list, # > 1)", "2"},
		{"count(body.list, # > 3)", "0"},
		{"count([true, false, true])", "2"},
		{"count([])", "0"},
		{"find(body.list, # < 3)", "1"},
		{"find(body.list, # > 3)", "nil"},
		{"find(body.items, .open).n", "'b'"},

		{"sum(body.list)", "6"},
		{"sum(body.items, .v)", "6"},
		{"sum(body.list, # / 2)", "3.0"},
		{"sum([1, 0.5])", "1.5"},
		{"sum([])", "0"},
	}.inBodies(t, records)
}

// The first element that decides ends all, any, none and find.
func TestEarlyEnd(t *testing.T) {
	table{
		{"all([1, 9], # == 9 ? 1 % 0 == 0 : false)", "false"},
		{"any([1, 9], # == 9 ? 1 % 0 == 0 : true)", "true"},
		{"none([1, 9], # == 9 ? 1 % 0 == 0 : true)", "false"},
		{"find([1, 9], # == 9 ? 1 % 0 == 0 : true)", "1"},
		{"one([1, 9], # == 9 ? 1 % 0 == 0 : true)", "column 24: division by zero"},
	}.inBodies(t, "null")
}

func TestRoundsInRounds(t *testing.T) {
	table{
		{"map([[1, 2], [3]], map(#, # * 2))", "[[2, 4], [6]]"},
		{"map([[1, 2], [3]], sum(#))", "[3, 3]"},
		{"map([1, 2], map(['a', 'b'], #index))", "[[0, 1], [0, 1]]"},
		{"map([5, 6], [map(['a', 'b'], #index), #index, #])", "[[[0, 1], 0, 5], [[0, 1], 1, 6]]"},
		{"filter([[1], [2, 3], []], any(#, # > 1))", "[[2, 3]]"},
		{"map([[2, 1], [4, 3]], sortBy(#, -#))", "[[2, 1], [4, 3]]"},
		{"map([1, 2], {let x = #; map([10, 20], # + x)})", "[[11, 21], [12, 22]]"},
		{"let other = map([1], #); map([2], [#, other, map([3], #)])", "[[2, [1], [3]]]"},
	}.inBodies(t, "null")
}

func TestSortBy(t *testing.T) {
	table{
		{"sortBy(body.list, #)", "[1, 2, 3]"},
		{"sortBy(body.list, #, 'asc')", "[1, 2, 3]"},
		{"sortBy(body.list, #, 'desc')", "[3, 2, 1]"},
		{"sortBy(body.list, -#)", "[3, 2, 1]"},
		{"sortBy([3, 1, 2.5], #)", "[1, 2.5, 3]"},
		{"sortBy(['b', 'a', 'ab'], #)", "['a', 'ab', 'b']"},
		{"map(sortBy(body.items, .v), .n)", "['a', 'b', 'c']"},
		{"map(sortBy(body.items, .n, 'desc'), .v)", "[3, 2, 1]"},
		{"sortBy(['x', 'y', 'z'], -#index)", "['z', 'y', 'x']"},
		{"sortBy([], #)", "[]"},
		{"sortBy([nil], #)", "[nil]"}, // nothing is compared
		{"let sorted = sortBy(body.list, #); [body.list, sorted]", "[[3, 1, 2], [1, 2, 3]]"},

		{"sortBy([1, 'a'], #)", "column 1: < does not take"},
		{"sortBy(body.items, .nothing)", "column 1: < does not take null and null"},
		{"sortBy([true, false], #)", "column 1: < does not take"},
	}.inBodies(t, records)

	table{
		{"sortBy([1], #, 'up')", "column 16: the order must be 'asc' or 'desc'"},
		{"sortBy([1], #, tenant_id)", "column 16: the order must be 'asc' or 'desc'"},
		{"sortBy([1], #, 1)", "column 16: the order must be 'asc' or 'desc'"},
	}.refused(t, new(lookups).language())
}

func TestRoundsOfWrongKinds(t *testing.T) {
	const (
		wanted = ": a list is wanted: where it may be missing, write ?? []"
		misfit = ": a value is missing, or of a kind that does not go here"
	)
	table{
		{"map(body.text, #)", "column 5" + wanted},
		{"map(body.object, #)", "column 5" + wanted},
		{"1 + sum(body.none)", "column 9" + wanted},
		{"map(body.none ?? [], #)", "[]"},
		{"filter([body.text], #)", "column 1" + misfit},
		{"any(body.items, .n)", "column 1" + misfit},
		{"1 + count(body.items, .nothing)", "column 5" + misfit},
		{"find([1], nil)", "column 1" + misfit},
		{"sum(['a'])", "column 1: + does not take a text and a number"},
		{"sum([1, nil])", "column 1: + does not take null and a number"},
	}.inBodies(t, records)

	const decides = " takes a list, and what is true or false of an element"
	table{
		{"filter([1], 1)", "column 13: filter" + decides},
		{"all([1], 'a')", "column 10: all" + decides},
		{"any([1], [])", "column 10: any" + decides},
		{"map([1], #x)", "column 10: unknown pointer #x"},
		{"map([1], #acc)", "column 10: unknown pointer #acc"},
		{"filter([1], #index > 0)", "column 13: unknown pointer #index"}, // only map and sortBy number the elements
		{"map([1], any([2], # > #index))", "column 23: unknown pointer #index"},
		{"map([1], {a: #})", "column 12: syntax error near \":\": an object that map makes stands in parentheses, as in map(list, ({name: .name}))"},
		{"map(nope, #)", "column 5: unknown name nope"},
		{"#", "column 1: syntax error near \"#\""},
	}.refused(t, new(lookups).language())

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
