package answers_test

import (
	"testing"

	"github.com/keywright/keywright/internal/answers"
)

// A place leads to one value of a document, or to none.
func TestPlaces(t *testing.T) {
	const document = ` {"a":{"b/c":"slash","d~e":"tilde","n":7,"null":null},"list":["zero",{"label":1},{"label":"key","value":"item"}],"":{"":"empty"}} `
	for place, want := range map[string]string{
		"json:/a/b~1c": "slash", "json:/a/d~0e": "tilde", "json:/list/0": "zero", "json:/list/[label=key]/value": "item", "json://": "empty",
		"json:/a/n": "", "json:/a/null": "", "json:/a": "", "json:/b": "", "json:/list/3": "", "json:/list/-1": "", "json:/list/[label=x]": "", "json:/a/n/x": "",
	} {
		got, ok := answers.Text(answers.ValueAt([]byte(document), place))
		if got != want || ok != (want != "") || !answers.IsPlace(place) {
			t.Errorf("at %s there is %q, %t; want %q at a place", place, got, ok, want)
		}
	}
	for _, text := range []string{"", "json:", "json:a", "/a", "text", "json:/~2"} {
		if answers.IsPlace(text) {
			t.Errorf("%q is a place", text)
		}
	}
	for _, text := range []string{"", "{", `{"a":`, "<html>", `{"a":"b","a":"c"}`} {
		if got, ok := answers.Text(answers.ValueAt([]byte(text), "json:/a")); ok {
			t.Errorf("in %q there is %q", text, got)
		}
	}
}
