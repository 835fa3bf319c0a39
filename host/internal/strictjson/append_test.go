package strictjson

import (
	stdjson "encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/testworld"
)

// Each character of a text is escaped as JSON wants it, and no other one is.
func TestTextsOfEachCharacter(t *testing.T) {
	for c := range rune(0x180) {
		for _, text := range []string{string(c), "a" + string(c) + "b"} {
			want := testworld.Must(jsontext.AppendQuote(nil, text))(t)
			if got, err := AppendString(nil, text); err != nil || string(got) != string(want) {
				t.Errorf("%q is %s, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{"\x80", "a\xff", "\xc3"} {
		if got, err := AppendString(nil, text); err == nil {
			t.Errorf("%q, which is not UTF-8, is %s", text, got)
		}
	}
}

// A number is written as it is if it is one of JSON, and refused otherwise.
func TestNumbersOfEachCharacter(t *testing.T) {
	all := []string{"", "0", "00", "01", "10", "-", "-0", "-01", "1e5", "1.5", "1.", "9", "90"}
	for c := rune('!'); c < 0x80; c++ { // JSON allows white space around a number
		all = append(all, string(c), "1"+string(c)+"1", string(c)+"1")
	}
	for _, text := range all {
		valid := stdjson.Valid([]byte(text))
		got, err := AppendValue(nil, stdjson.Number(text))
		if valid != (err == nil) || valid && string(got) != text {
			t.Errorf("the number %q is %s, %v", text, got, err)
		}
	}
}
