package connectors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/internal/testworld"
)

// change is a text before and after an edit.
type change struct{ before, after string }

// checkEdits checks what an edit makes of texts, and that it refuses other texts, with words of the error.
func checkEdits(t *testing.T, edit func(text []byte) ([]byte, error), changes map[string]change, bad map[string]string, words string) {
	t.Helper()
	for name, c := range changes {
		if got, err := edit([]byte(c.before)); err != nil || string(got) != c.after {
			t.Errorf("%s: err = %v\ngot = %s", name, err, got)
		}
	}
	for name, text := range bad {
		testworld.WantError(t, name, testworld.ErrorOf(edit([]byte(text))), words)
	}
	for name, text := range map[string]string{"no YAML": "a: [", "a list": "[]", "nothing": ""} {
		testworld.WantError(t, name, testworld.ErrorOf(edit([]byte(text))), "cannot be read")
	}
}

// A plugin is added behind the others, in the way in which these are written, and everything else stays as it is.
func TestSetPluginRef(t *testing.T) {
	edit := func(text []byte) ([]byte, error) { return SetPluginRef(t.Context(), text, "acme", "r.example/acme:2") }
	checkEdits(t, edit, map[string]change{
		"without plugins":           {"connectors: []\n", "connectors: []\nplugins:\n  - name: acme\n    ref: r.example/acme:2\n"},
		"without a last line break": {"connectors: []", "connectors: []\nplugins:\n  - name: acme\n    ref: r.example/acme:2\n"},
		"behind another": {
			"plugins:\n- path: a.wasm # mine\n  grants: [reveal]\n\n# the end\nconnectors: []\n",
			"plugins:\n- path: a.wasm # mine\n  grants: [reveal]\n- name: acme\n  ref: r.example/acme:2\n\n# the end\nconnectors: []\n",
		},
		"at the end": {
			"plugins:\n    - path: a.wasm",
			"plugins:\n    - path: a.wasm\n    - name: acme\n      ref: r.example/acme:2\n",
		},
		"in place of another version": {
			"plugins:\n  - ref: 'r.example/acme:1' # first\n    name: acme\n    grants:\n      - reveal\n  - name: beta\n    ref: r.example/acme:1\n",
			"plugins:\n  - ref: 'r.example/acme:2' # first\n    name: acme\n    grants:\n      - reveal\n  - name: beta\n    ref: r.example/acme:1\n",
		},
		"in one line": {"plugins: [{name: acme, ref: 'r.example/acme:1'}]\n", "plugins: [{name: acme, ref: 'r.example/acme:2'}]\n"},
		"in JSON":     {`{"plugins": [{"name": "acme", "ref": "r.example/acme:1"}]}`, `{"plugins": [{"name": "acme", "ref": "r.example/acme:2"}]}`},
		"the same":    {"plugins:\n  - {name: acme, ref: 'r.example/acme:2'}\n", "plugins:\n  - {name: acme, ref: 'r.example/acme:2'}\n"},
	}, map[string]string{
		"a list in brackets":        "plugins: [{path: a.wasm}]\n",
		"an empty list":             "plugins: []\n",
		"JSON":                      `{"connectors": []}`,
		"a document that has ended": "connectors: []\n...\n",
		"a reference in two lines":  "plugins:\n  - name: acme\n    ref: >-\n      r.example/acme:1\n",
		"the same text twice":       "plugins:\n  - {name: acme, ref: 'r.example/acme:1', path: 'r.example/acme:1'}\n",
	}, "only you can change: it needs, in plugins, name: acme and ref: r.example/acme:2")
}

const added = "- name: New\n  url: https://new.example\n  auth:\n    type: none\n"

// A connector is added behind the others, in the way in which these are written, and everything else stays as it is (threats.md 199).
func TestAddConnector(t *testing.T) {
	const old = "{name: a, url: 'https://a.example', auth: {type: none}}"
	edit := func(text []byte) ([]byte, error) { return AddConnector(t.Context(), text, added) }
	checkEdits(t, edit, map[string]change{
		"an empty list":             {"connectors:\n", "connectors:\n  - name: New\n    url: https://new.example\n    auth:\n      type: none\n"},
		"no list":                   {"egress: {}", "egress: {}\nconnectors:\n  - name: New\n    url: https://new.example\n    auth:\n      type: none\n"},
		"behind another":            {"connectors:\n- " + old + " # mine\n\n# the end\negress: {}\n", "connectors:\n- " + old + " # mine\n" + added + "\n# the end\negress: {}\n"},
		"without a last line break": {"connectors:\n    - " + old, "connectors:\n    - " + old + "\n    - name: New\n      url: https://new.example\n      auth:\n        type: none\n"},
	}, map[string]string{
		"a list in brackets":        "connectors: [" + old + "]\n",
		"a list in empty brackets":  "connectors: []\n",
		"JSON":                      `{"connectors": []}`,
		"a document that has ended": "egress: {}\n...\n",
		"another list at the end":   "connectors:\nplugins:\n  - path: a.wasm\n",
	}, "only you can change: leave out -c")
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
