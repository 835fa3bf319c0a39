package connectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/internal/testworld"
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
			t.Errorf("%s: err = %v\ngot = %s", name, err, got)
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
			t.Errorf("%s: err = %v\ngot = %s", name, err, got)
		}
	}
	for name, text := range map[string]string{"no YAML": "a: [", "a list": "[]", "nothing": ""} {
		testworld.WantError(t, name, testworld.ErrorOf(AddConnector(t.Context(), []byte(text), added)), "cannot be read")
	}
	two := added + "- name: Another\n"
	if got, err := AddConnector(t.Context(), []byte("connectors:\n- "+old+"\n"), two); err == nil {
		t.Errorf("two connectors are added\n%s", got)
	}
	if got, err := AddConnector(t.Context(), []byte("connectors:\n- "+old+"\n"), added+"state: {}\n"); err == nil {
		t.Errorf("another member is added\n%s", got)
	}
}

// The connectors of a file are its own and those of its directory, of which files that cannot be read are left out.
func TestLayoutOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "connectors: [{name: In A}, {name: Second}]", "b.yaml": "[", "c.txt": "connectors: [{name: no}]"} {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const own = "connectors:\n- {name: First One}\n- {name: x, permalink: second}\n"
	main := filepath.Join(dir, "main.yaml")
	for text, want := range map[string]Layout{
		own:                             {Files: map[string]string{"first-one": main, "second": main}, Listed: true},
		"connectors_dir: " + dir + "\n": {Files: map[string]string{"in-a": filepath.Join(dir, "a.yaml"), "second": filepath.Join(dir, "a.yaml")}, Dir: dir},
		own + "connectors_dir: .\n":     {Files: map[string]string{"first-one": main, "second": main, "in-a": filepath.Join(dir, "a.yaml")}, Dir: dir, Listed: true},
		"connectors_dir: nowhere\n":     {Files: map[string]string{}, Dir: filepath.Join(dir, "nowhere")},
	} {
		got, err := LayoutOf(t.Context(), main, []byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if _, err := LayoutOf(t.Context(), main, []byte("[")); err == nil {
		t.Error("a file that is none has a layout")
	}
}
