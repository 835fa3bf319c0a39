package expr

import (
	"fmt"
	"testing"
)

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
