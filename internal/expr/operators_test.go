package expr

import (
	"fmt"
	"strings"
	"testing"
)

// kinds is a body with a value of each kind.
const kinds = `{"text":"ab","integer":7,"decimal":2.5,"yes":true,"list":[1,2],"object":{"a":1},"none":null,"huge":12345678901234567890}`

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

// Integer overflow is an error, also in sum and abs.
func TestArithmeticNeverWraps(t *testing.T) {
	const most, least = 1<<63 - 1, -1 << 63
	for _, c := range []struct {
		operator string
		x, y     int
		want     any // nil means an error
	}{
		{"+", most, 1, nil},
		{"+", most, -1, most - 1},
		{"+", least, -1, nil},
		{"+", 5, 0, 5},
		{"-", least, 1, nil},
		{"-", 0, least, nil},
		{"-", -1, least, most},
		{"-", 5, 0, 5},
		{"*", most, 2, nil},
		{"*", -1, least, nil},
		{"*", least, -1, nil},
		{"*", -1, most, -most},
		{"*", 0, least, 0},
		{"*", 1, least, least},
		{"*", -1, 0, 0},
	} {
		source := "response.body[0] " + c.operator + " response.body[1]"
		_, got, err := evaluate(t.Context(), t, 0, source, fmt.Sprintf("[%d,%d]", c.x, c.y))
		if (err == nil) != (c.want != nil) || err == nil && got != int64(c.want.(int)) {
			t.Errorf("%d %s %d is %v, %v; want %v", c.x, c.operator, c.y, got, err, c.want)
		}
	}
	for _, source := range []string{"-response.body[0]", "abs(response.body[0])", "sum(response.body)", "sum(response.body, # - 1)"} {
		if _, got, err := evaluate(t.Context(), t, 0, source, fmt.Sprintf("[%d,-1]", least)); err == nil || err.Message != "the integer is too large" {
			t.Errorf("%s is %v, %v", source, got, err)
		}
	}
}
