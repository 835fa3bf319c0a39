package answer

import (
	"encoding/json"
	"strings"
	"testing"
)

// An unusable expires_in counts as absent (threats.md 33, specification.md "expires_in missing, not a number or short").
func TestExpiresIn(t *testing.T) {
	for name, c := range map[string]struct {
		in   any
		want int64 // -1 for absent
	}{
		"a number":                      {json.Number("3600"), 3600},
		"a decimal string":              {"3600", 3600},
		"a fraction is cut off":         {json.Number("3599.9"), 3599},
		"an exponent":                   {json.Number("3.6e3"), 3600},
		"zero":                          {json.Number("0"), 0},
		"the largest":                   {json.Number("2147483647"), 2147483647},
		"one more than the largest":     {json.Number("2147483648"), -1},
		"negative":                      {json.Number("-1"), -1},
		"huge":                          {json.Number("1e99"), -1},
		"an exponent that costs":        {json.Number("1e999999999"), -1},
		"a small exponent that costs":   {json.Number("1e-999999999"), -1},
		"many digits":                   {json.Number(strings.Repeat("9", 100)), -1},
		"text":                          {"an hour", -1},
		"text with a unit":              {"3600s", -1},
		"hexadecimal text":              {"0x10", -1},
		"a ratio":                       {"7200/2", -1},
		"underscores":                   {"3_600", -1},
		"infinity":                      {"Inf", -1},
		"null, or no member":            {nil, -1},
		"a list":                        {[]any{json.Number("1")}, -1},
		"true":                          {true, -1},
		"text that is empty":            {"", -1},
		"an exponent of two digits":     {json.Number("36000000000000e-10"), 3600},
		"an exponent with zeros":        {json.Number("36e+00002"), 3600},
		"32 characters":                 {json.Number("3600." + strings.Repeat("0", 27)), 3600},
		"33 characters":                 {json.Number("3600." + strings.Repeat("0", 28)), -1},
		"a plus sign, as text has them": {"+60", 60},
	} {
		t.Run(name, func(t *testing.T) {
			got := seconds(c.in)
			if c.want < 0 && got != nil || c.want >= 0 && (got == nil || *got != c.want) {
				t.Errorf("seconds(%v) = %v, want %d", c.in, got, c.want)
			}
		})
	}
}
