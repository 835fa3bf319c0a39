package expr

import (
	"strings"
	"testing"
)

// kinds is a body with a value of each kind.
const kinds = `{"text":"ab","integer":7,"decimal":2.5,"yes":true,"list":[1,2],"object":{"a":1},"none":null,"huge":12345678901234567890}`

func TestArithmetic(t *testing.T) {
	rows := table{
		{"1 + 2", "3"},
		{"1 + 0.5", "1.5"},
		{"0.5 + 0.5", "1.0"},
		{"'a' + 'b'", "'ab'"},
		{"5 - 7", "-2"},
		{"5 - 0.5", "4.5"},
		{"3 * 4", "12"},
		{"3 * 0.5", "1.5"},
		{"7 / 2", "3.5"},
		{"4 / 2", "2.0"},
		{"7 % 3", "1"},
		{"-7 % 3", "-1"},
		{"7 % -3", "1"},
		{"-(3)", "-3"},
		{"-2.5", "-2.5"},
		{"+3", "3"},
		{"0 * -1.5", "0.0"}, // there is no -0
		{"-0.0", "0.0"},
		// precedence and associativity
		{"2 + 3 * 4", "14"},
		{"(2 + 3) * 4", "20"},
		{"10 - 2 - 3", "5"},
		{"-2 + 3", "1"},
		{"7 - 7 % 4", "4"},
	}
	rows.inBodies(t, "null")
	rows.inTemplates(t)

	table{
		{"2 ** 10", "1024.0"},
		{"2 ^ 0.5", "1.4142135623730951"},
		{"2 ** 3 ** 2", "512.0"},
		{"-2 ** 2", "-4.0"},
		{"1 / 0", "+Inf"},
		{"-1 / 0", "-Inf"},
		{"0 / 0", "NaN"},
		{"1e308 * 10", "+Inf"},
		{"body.integer + body.decimal", "9.5"},
		{"body.text + body.text", "'abab'"},
		{"-body.integer", "-7"},
		{"-body.decimal", "-2.5"},
		{"+body.decimal", "2.5"},
	}.inBodies(t, kinds)
}

func TestUndefinedArithmetic(t *testing.T) {
	table{
		{"1 % 0", "column 3: division by zero"},
		{"1 / 0", "column 3: division by zero, or a number that is too large"},
		{"0 / 0", "column 3: division by zero, or a number that is too large"},
		{"1e308 * 10", "column 7: division by zero, or a number that is too large"},
		{"9223372036854775807 + 1", "column 21: the integer is too large"},
		{"-9223372036854775807 - 2000", "column 22: the integer is too large"},
		{"now() * 9000000000000000000", "column 7: the integer is too large"},
		{"(true ? 1 : 2.5) / 0", "column 18: division by zero"},
		{"(false ? 1 : 2.5) + 1", "3.5"},
		{"-(true ? 1 : 2.5)", "-1"},
	}.inTemplates(t)

	table{
		{"1 % 0", "column 3: division by zero"},
		{"body.decimal % 2", "column 14: % does not take a number and a number"},
		{"2 % body.decimal", "column 3: % does not take a number and a number"},
		{"body.text + 1", "column 11: + does not take a text and a number"},
		{"1 + body.text", "column 3: + does not take a number and a text"},
		{"body.none + 1", "column 11: + does not take null and a number"},
		{"body.list - 1", "column 11: - does not take a list and a number"},
		{"2 * body.yes", "column 3: * does not take a number and a boolean"},
		{"body.object / 2", "column 13: / does not take an object and a number"},
		{"body.huge ** 2", "column 11: ** does not take a number that is too long and a number"},
		{"2 ^ body.none", "column 3: ^ does not take a number and null"},
		{"-body.text", "column 1: a value is missing, or of a kind that does not go here"},
		{"+body.text", "column 1: a value is missing, or of a kind that does not go here"},
		{"1 + -body.none", "column 5: a value is missing, or of a kind that does not go here"},
	}.inBodies(t, kinds)
}

// The operators <, <=, > and >= order numbers and texts.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		x, y, holding string
		bodies        bool
	}{
		{x: "1", y: "2", holding: "< <="},
		{x: "2", y: "2", holding: "<= >="},
		{x: "2", y: "1", holding: "> >="},
		{x: "1", y: "1.5", holding: "< <="},
		{x: "2.0", y: "2", holding: "<= >="},
		{x: "2.5", y: "-2.5", holding: "> >="},
		{x: "9007199254740993", y: "9007199254740992", holding: "> >="}, // equal as decimals
		{x: "9007199254740993", y: "9007199254740992.0", holding: "<= >="},
		{x: "'a'", y: "'b'", holding: "< <="},
		{x: "'a'", y: "'a'", holding: "<= >="},
		{x: "'a'", y: "'ab'", holding: "< <="},
		{x: "'a'", y: "'B'", holding: "> >="},
		{x: "'é'", y: "'z'", holding: "> >="},
		{x: "0 / 0", y: "0 / 0", holding: "", bodies: true},
		{x: "0 / 0", y: "1", holding: "", bodies: true},
		{x: "1", y: "0 / 0", holding: "", bodies: true},
		{x: "1 / 0", y: "1", holding: "> >=", bodies: true},
	} {
		for _, operator := range []string{"<", "<=", ">", ">="} {
			source, want := c.x+" "+operator+" "+c.y, "false"
			for _, name := range strings.Fields(c.holding) {
				if name == operator {
					want = "true"
				}
			}
			table{{source, want}}.inBodies(t, "null")
			if !c.bodies {
				table{{source, want}}.inTemplates(t)
			}
		}
	}

	table{
		{"body.none < 1", "column 11: < does not take null and a number"},
		{"1 > body.text", "column 3: > does not take a number and a text"},
		{"body.text >= body.decimal", "column 11: >= does not take a text and a number"},
		{"body.yes <= body.yes", "column 10: <= does not take a boolean and a boolean"},
		{"body.list < body.list", "column 11: < does not take a list and a list"},
		{"body.huge > 1", "column 11: > does not take a number that is too long and a number"},
	}.inBodies(t, kinds)
}

func TestEquality(t *testing.T) {
	same := [][2]string{{"1", "1"}, {"2", "2.0"}, {"-0.0", "0"}, {"'a'", "'a'"}, {"''", "''"}, {"true", "true"}}
	different := [][2]string{{"1", "2"}, {"1", "1.5"}, {"0", "0.5"}, {"9007199254740993", "9007199254740992"}, {"'a'", "'A'"}, {"'a'", "'ab'"}, {"true", "false"}}
	check := func(pairs [][2]string, equal, unequal string, on func(table)) {
		for _, pair := range pairs {
			x, y := pair[0], pair[1]
			on(table{{x + " == " + y, equal}, {y + " == " + x, equal}, {x + " != " + y, unequal}, {y + " != " + x, unequal}})
		}
	}
	inBoth := func(rows table) {
		rows.inBodies(t, "null")
		rows.inTemplates(t)
	}
	check(same, "true", "false", inBoth)
	check(different, "false", "true", inBoth)

	inBodies := func(rows table) { rows.inBodies(t, kinds) }
	check([][2]string{
		{"body.none", "nil"},
		{"nil", "nil"},
		{"body.huge", "body.huge"},
		{"[]", "[]"},
		{"body.list", "[1, 2]"},
		{"body.list", "[1.0, 2]"},
		{"body.object", "{a: 1}"},
		{"{a: 1, b: [2]}", "{b: [2], a: 1}"},
		{"{a: nil}", "{a: nil}"},
	}, "true", "false", inBodies)
	check([][2]string{
		{"body.none", "0"},
		{"body.none", "''"},
		{"body.none", "false"},
		{"body.text", "1"},
		{"body.yes", "1"},
		{"body.huge", "12345678901234567890.0"},
		{"body.list", "[1]"},
		{"body.list", "[1, 3]"},
		{"body.list", "body.object"},
		{"body.object", "{a: 2}"},
		{"body.object", "{b: 1}"},
		{"body.object", "{a: 1, b: 2}"},
		{"body.object", "{a: 1.0}"}, // inside of objects, kinds count, as in expr
		{"body.object", "{a: nil}"},
		{"{a: [1]}", "{a: [1.0]}"},
		{"{a: [1]}", "{a: 'x'}"},
		{"{a: {}}", "{a: []}"},
		{"{a: nil}", "{b: nil}"},
		{"0 / 0", "0 / 0"},
		{"0 / 0", "1"},
	}, "false", "true", inBodies)
}

func TestTestsOfTexts(t *testing.T) {
	rows := table{
		{"'abc' contains 'b'", "true"},
		{"'abc' contains 'd'", "false"},
		{"'abc' contains ''", "true"},
		{"'abc' startsWith 'ab'", "true"},
		{"'abc' startsWith 'bc'", "false"},
		{"'abc' endsWith 'bc'", "true"},
		{"'abc' endsWith 'ab'", "false"},
		{"'abc' not contains 'b'", "false"},
		{"'abc' not startsWith 'b'", "true"},
		{"not ('abc' endsWith 'b')", "true"},
	}
	rows.inBodies(t, "null")
	rows.inTemplates(t)

	table{
		{"body.none contains 'a'", "false"}, // null contains nothing, and nothing contains it
		{"'a' contains body.none", "false"},
		{"body.none startsWith body.none", "false"},
		{"body.integer contains 'a'", "column 14: contains does not take a number and a text"},
		{"'a' startsWith body.list", "column 5: startsWith does not take a text and a list"},
		{"body.text matches '^a'", "true"},
		{"body.text matches '^b'", "false"},
		{"body.text not matches '^b'", "true"},
		{"body.none matches '^a'", "false"},
		{"body.integer matches '7'", "column 14: a text is wanted"},
	}.inBodies(t, kinds)
}

func TestIn(t *testing.T) {
	table{
		{"2 in body.list", "true"},
		{"2.0 in body.list", "true"},
		{"3 in body.list", "false"},
		{"'2' in body.list", "false"},
		{"nil in [1, nil]", "true"},
		{"nil in [1]", "false"},
		{"[1] in [[1.0]]", "true"},
		{"1 not in body.list", "false"},
		{"'a' in body.object", "true"},
		{"'b' in body.object", "false"},
		{"'a' in {b: 1, a: nil}", "true"},
		{"'c' in {b: 1, a: nil}", "false"},
		{"nil in {'': 1}", "false"},
		{"'a' in body.none", "false"},
		{"1 in nil", "false"},
		{"body.integer in body.object", "column 14: the members of an object are named by texts"},
		{"'a' in body.text", "column 5: in does not take a text and a text"},
		{"'a' in body.integer", "column 5: in does not take a text and a number"},
	}.inBodies(t, kinds)
}

func TestLogic(t *testing.T) {
	rows := table{
		{"true && true", "true"},
		{"true && false", "false"},
		{"false and true", "false"},
		{"true and true", "true"},
		{"false || true", "true"},
		{"false || false", "false"},
		{"true or false", "true"},
		{"false or false", "false"},
		{"!true", "false"},
		{"not false", "true"},
		{"true || true && false", "true"}, // && binds more closely
		{"(true || true) && false", "false"},
		// the right side is not evaluated if the left side decides
		{"true || 1 % 0 == 0", "true"},
		{"false && 1 % 0 == 0", "false"},
		{"false || 1 % 0 == 0", "column 12: division by zero"},
		{"true && 1 % 0 == 0", "column 11: division by zero"},
		{"true ? 1 : 2", "1"},
		{"false ? 1 : 2", "2"},
		{"false ? 1 : false ? 2 : 3", "3"},
		{"true ? 1 : 1 % 0", "1"},
		{"false ? 1 % 0 : 2", "2"},
	}
	rows.inBodies(t, "null")
	rows.inTemplates(t)

	const misfit = ": a value is missing, or of a kind that does not go here"
	table{
		{"body.text && true", "column 11" + misfit},
		{"body.none || true", "column 11" + misfit},
		{"!body.integer", "column 1" + misfit},
		{"not body.none", "column 1" + misfit},
		{"1 + (body.text ? 1 : 2)", "column 6" + misfit},
		{"body.yes ? 'x' : 2", "'x'"},
	}.inBodies(t, kinds)
}

// ?? replaces null, and nothing else.
func TestOtherValueForNull(t *testing.T) {
	table{
		{"body.none ?? 'x'", "'x'"},
		{"body.nothing ?? 'x'", "'x'"},
		{"body.yes ?? 'x'", "true"},
		{"false ?? true", "false"},
		{"'' ?? 'x'", "''"},
		{"0 ?? 1", "0"},
		{"body.none ?? nil ?? 3", "3"},
		{"body.integer ?? (1 % 0)", "7"},
		{"body.none.deeper ?? 1", "column 11: null has no members"},
	}.inBodies(t, kinds)
}
