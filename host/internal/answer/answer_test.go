package answer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// A place in an answer needs all of its parts, and only some places are in the body.
func TestPlacesInAnAnswer(t *testing.T) {
	for place, c := range map[string]struct{ valid, body bool }{
		"xml:/a": {true, true}, "xml:/a/b": {true, true}, "xml:": {}, "xml:a": {}, "xml:/": {}, "xml:/a//b": {}, "xml:/x:a": {},
		"json:": {true, true}, "json:/a": {true, true}, "form:a": {true, true}, "header:X-A": {true, false}, "cookie:a": {true, false},
		"auth:Digest/nonce": {true, false}, "info:nextnonce": {true, false},
		"auth:Digest": {}, "auth:Digest/": {}, "auth:/nonce": {}, "auth:/": {}, "form:": {}, "header:": {}, "other:a": {}, "json:a": {}, "a": {},
	} {
		s, err := ParseSource(place)
		if (err == nil) != c.valid || s.InBody() != c.body {
			t.Errorf("%s: in the body %t, %v", place, s.InBody(), err)
		}
	}
}

// What an answer does not have, and what is longer than a value may be, is not found.
func TestValuesOfAnAnswer(t *testing.T) {
	const longest = 10
	list := func(place, kind string) []Part { return partsAt(t, kind, place) }
	for name, c := range map[string]struct {
		list       []Part
		header     http.Header
		body, want string
	}{
		"the longest":              {list("json:/a", contract.AnswerSealed), nil, `{"a":"0123456789"}`, "0123456789"},
		"one longer":               {list("json:/a", contract.AnswerSealed), nil, `{"a":"0123456789a"}`, ""},
		"the first of an array":    {list("json:/0", contract.AnswerSealed), nil, `["x","y"]`, "x"},
		"the last of an array":     {list("json:/1", contract.AnswerSealed), nil, `["x","y"]`, "y"},
		"after an array":           {list("json:/2", contract.AnswerSealed), nil, `["x","y"]`, ""},
		"before an array":          {list("json:/-1", contract.AnswerSealed), nil, `["x","y"]`, ""},
		"a name in an array":       {list("json:/a", contract.AnswerSealed), nil, `["x","y"]`, ""},
		"a place with a zero":      {list("json:/01", contract.AnswerSealed), nil, `["x","y"]`, ""},
		"a large place":            {list("json:/99999999999999999999", contract.AnswerSealed), nil, `["x","y"]`, ""},
		"a form":                   {list("form:a", contract.AnswerSealed), nil, "a=x&b=y", "x"},
		"a malformed form":         {list("form:a", contract.AnswerSealed), nil, "a=x&b=%zz", ""},
		"a header":                 {list("header:X-A", contract.AnswerSealed), http.Header{"X-A": {"x", "y"}}, "", "x, y"},
		"an enum without a header": {list("header:X-A", contract.AnswerEnum), http.Header{}, "", ""},
		"an enum with a header":    {list("header:X-A", contract.AnswerEnum), http.Header{"X-A": {"x"}}, "", "other"},
	} {
		got := (&Reply{Header: c.header, Body: []byte(c.body), List: c.list}).Find(nil, longest)
		if value, ok := got["a"]; value != c.want || ok != (c.want != "") {
			t.Errorf("%s: got = %q", name, got)
		}
	}
}

// A value with a list is the first name of the enum that is in the list, in any case of letters. A name may itself have a space.
func TestNamesOfAnEnum(t *testing.T) {
	a := &Part{Answer: abi.Answer{Enum: []string{"auth", "auth-int", "two words", "a,b"}}}
	for text, want := range map[string]string{
		"auth": "auth", "AUTH-INT": "auth-int", "auth-int,auth": "auth", "auth-int, x": "auth-int", "x auth-int": "auth-int", "two words": "two words", "A,B": "a,b",
		"": "other", "x": "other", "authx": "other", "auth;auth-int": "other", ",": "other", "two": "other",
	} {
		if got := a.nameOf(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A number is a time in seconds, and from 100,000,000,000 on in milliseconds.
func TestTimesOfAnAnswer(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1.9": 1, "99999999999": 99_999_999_999, "100000000000": 100_000_000, "1700000000999": 1_700_000_000,
		"99999999999999": 99_999_999_999, "100000000000000": -1, "-1": -1, "-0.5": -1, "1e14": -1, "NaN": -1, "Inf": -1, "": -1, "soon": -1,
		"1970-01-01T00:00:07Z": 7, "Thu, 01 Jan 1970 00:00:07 GMT": 7,
	} {
		values := []any{text}
		if strings.Trim(text, "0123456789.-") == "" && text != "" {
			values = append(values, json.Number(text))
		}
		for _, value := range values {
			if got, ok := readTime(value); ok != (want >= 0) || ok && got != want {
				t.Errorf("%T %s: got = %d, ok = %t", value, text, got, ok)
			}
		}
	}
}

// partsAt returns parts of a kind at these places.
func partsAt(t *testing.T, kind string, places ...string) (list []Part) {
	t.Helper()
	for _, place := range places {
		source := testworld.Must(ParseSource(place))(t)
		list = append(list, Part{Answer: abi.Answer{Name: "a", From: place, Kind: kind}, Source: source})
	}
	return list
}

// A made-up time of an answer is in an hour.
func TestMadeUpTime(t *testing.T) {
	if got := MadeUp(partsAt(t, contract.AnswerTime, "json:/at"), nil, time.Unix(1000, 0))["a"]; got != "4600" {
		t.Errorf("after second 1000 the time is %q", got)
	}
}

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
