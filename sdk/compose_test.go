package sdk

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Fill replaces placeholders and escapes in the texts of a document, and nothing else.
func TestFill(t *testing.T) {
	values := []Pair{{"a", "1"}, {"ab", `"\{a}`}}
	for document, want := range map[string]string{
		``:                               ``,
		`{}`:                             `{}`,
		`{"x":"{a}","y":["b {ab} {a}"]}`: `{"x":"1","y":["b \"\\{a} 1"]}`,
		`{"x":"\\{a}\\\\{a}\n\\n\"{"}`:   `{"x":"{a}\\1\n\\n\"{"}`,
		`{"{a}":{"b":{"a":1}}}`:          `{"1":{"b":{"a":1}}}`,
		`{"x":"{b} {a {} {query{id}}"}`:  `{"x":"{b} {a {} {query{id}}"}`,
	} {
		if got := Fill(document, values...); got != want {
			t.Errorf("%s is filled as %s, not %s", document, got, want)
		}
	}
}

// threats.md 103: text that the host has escaped is no placeholder, and is filled as it was before.
func TestFillOfEscapedText(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `{`, `\{`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([{}\\"a\n]|\{a\})*`).Draw(t, "text")
		document, err := json.Marshal([]string{escape.Replace(text)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal([]byte(Fill(string(document), Pair{"a", "1"})), &got); err != nil || got[0] != text {
			t.Fatalf("%q is filled as %q: %v", text, got, err)
		}
	})
}

// Place puts pairs where a field says. Present leaves out those without a value.
func TestPlace(t *testing.T) {
	pairs := Present([]Pair{{"a", "1"}, {"b", ""}, {"", "2"}})
	if len(pairs) != 2 || pairs[0].Name != "a" || pairs[1].Value != "2" {
		t.Fatalf("present are %v", pairs)
	}
	for place, got := range map[string][]Pair{
		"header": Place("header", pairs...).Headers, "query": Place("query", pairs...).Query, "path": Place("path", pairs...).Path,
		"cookie": Place("cookie", pairs...).Cookies, "form": Place("form", pairs...).Form,
	} {
		if len(got) != 2 || got[0] != pairs[0] {
			t.Errorf("%s has %v", place, got)
		}
	}
}
