package connectors

import (
	"slices"
	"strings"
	"testing"
)

const added = "- name: New\n  url: https://new.example\n  auth:\n    type: none\n"

// A connector is added behind the others, in the way in which these are written, and everything else stays as it is (threats.md 199).
func TestAddConnector(t *testing.T) {
	const old = "{name: a, url: 'https://a.example', auth: {type: none}}"
	for name, c := range map[string]struct{ before, after string }{
		"an empty list":             {"connectors:\n", "connectors:\n  - name: New\n    url: https://new.example\n    auth:\n      type: none\n"},
		"no list":                   {"egress: {}", "egress: {}\nconnectors:\n  - name: New\n    url: https://new.example\n    auth:\n      type: none\n"},
		"behind another":            {"connectors:\n- " + old + " # mine\n\n# the end\negress: {}\n", "connectors:\n- " + old + " # mine\n" + added + "\n# the end\negress: {}\n"},
		"without a last line break": {"connectors:\n    - " + old, "connectors:\n    - " + old + "\n    - name: New\n      url: https://new.example\n      auth:\n        type: none\n"},
	} {
		got, err := AddConnector(t.Context(), []byte(c.before), added)
		if err != nil || string(got) != c.after {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, text := range map[string]string{
		"a list in brackets":        "connectors: [" + old + "]\n",
		"a list in empty brackets":  "connectors: []\n",
		"JSON":                      `{"connectors": []}`,
		"a document that has ended": "egress: {}\n...\n",
		"another list at the end":   "connectors:\nplugins:\n  - path: a.wasm\n",
	} {
		if got, err := AddConnector(t.Context(), []byte(text), added); err == nil || !strings.Contains(err.Error(), "only you can change: leave out -c") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, text := range map[string]string{"no YAML": "a: [", "a list": "[]", "nothing": ""} {
		if _, err := AddConnector(t.Context(), []byte(text), added); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", name, err)
		}
	}
	two := added + "- name: Another\n"
	if got, err := AddConnector(t.Context(), []byte("connectors:\n- "+old+"\n"), two); err == nil {
		t.Errorf("two connectors are added\n%s", got)
	}
	if got, err := AddConnector(t.Context(), []byte("connectors:\n- "+old+"\n"), added+"state: {}\n"); err == nil {
		t.Errorf("another member is added\n%s", got)
	}
}

// The permalinks of a file are those that are written, or those of the names.
func TestPermalinks(t *testing.T) {
	got, err := Permalinks(t.Context(), []byte("connectors:\n- {name: First One}\n- {name: x, permalink: second}\n"))
	if want := []string{"first-one", "second"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Permalinks(t.Context(), []byte("[")); err == nil {
		t.Error("a file that cannot be read has permalinks")
	}
}
