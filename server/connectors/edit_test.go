package connectors

import (
	"strings"
	"testing"
)

// A plugin is added behind the others, in the way in which these are written, and everything else stays as it is.
func TestSetPluginRef(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
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
	} {
		got, err := SetPluginRef(t.Context(), []byte(c.before), "acme", "r.example/acme:2")
		if err != nil || string(got) != c.after {
			t.Errorf("%s: err = %v\ngot = %s", name, err, got)
		}
	}
	for name, text := range map[string]string{
		"a list in brackets":        "plugins: [{path: a.wasm}]\n",
		"an empty list":             "plugins: []\n",
		"JSON":                      `{"connectors": []}`,
		"a document that has ended": "connectors: []\n...\n",
		"a reference in two lines":  "plugins:\n  - name: acme\n    ref: >-\n      r.example/acme:1\n",
		"the same text twice":       "plugins:\n  - {name: acme, ref: 'r.example/acme:1', path: 'r.example/acme:1'}\n",
	} {
		if got, err := SetPluginRef(t.Context(), []byte(text), "acme", "r.example/acme:2"); err == nil || !strings.Contains(err.Error(), "only you can change: it needs, in plugins, name: acme and ref: r.example/acme:2") {
			t.Errorf("%s: err = %v\ngot = %s", name, err, got)
		}
	}
	for name, text := range map[string]string{"no YAML": "a: [", "a list": "[]", "nothing": ""} {
		if _, err := SetPluginRef(t.Context(), []byte(text), "acme", "r.example/acme:2"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
