package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// builtInTypes returns the built-in auth types.
func builtInTypes(t *testing.T) []host.PluginInfo {
	t.Helper()
	h := testworld.Must(host.New(t.Context(), host.Config{BuiltIns: BuiltIns(plugins.Types()...)}))(t)
	defer h.Close(t.Context())
	return h.Plugins()
}

// compiledSchema compiles the schema of a file with an independent implementation.
func compiledSchema(t *testing.T, all []host.PluginInfo) (*jsonschema.Schema, []byte) {
	t.Helper()
	text := testworld.Must(Schema(all))(t)
	document := testworld.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	compiler := jsonschema.NewCompiler()
	testworld.Check(t, compiler.AddResource("connectors.schema.json", document))
	compiled, err := compiler.Compile("connectors.schema.json")
	if err != nil {
		t.Fatalf("err = %v\ntext = %s", err, text)
	}
	return compiled, text
}

// The schema has what the loader reads: a file that the loader refuses for its form is refused by the schema. (The tests in
// server/test/editor compare many more files, line by line.)
func TestSchema(t *testing.T) {
	compiled, _ := compiledSchema(t, builtInTypes(t))
	with := func(auth, more string) string {
		return `{"connectors": [{"name": "a", "url": "https://api.example.com", "auth": ` + auth + more + `}]}`
	}
	for name, test := range map[string]struct {
		file  string
		valid bool
	}{
		"a connector":                  {with(`{"type": "none"}`, ``), true},
		"a configuration that is null": {with(`{"type": "none", "config": null}`, ``), true},
		"a deprecated auth type":       {with(`{"type": "apikey", "config": {"key": "X", "value": "v", "in": "header"}}`, ``), true},
		"its configuration":            {with(`{"type": "apikey", "config": {"key": "X"}}`, ``), false},
		"no such auth type":            {with(`{"type": "api_kye"}`, ``), false},
		"no such field":                {with(`{"type": "bearer", "config": {"token": "t", "tokne": "t"}}`, ``), false},
		"no such value":                {with(`{"type": "api_key", "config": {"key": "X", "value": "v", "in": "body"}}`, ``), false},
		"a template for a value":       {with(`{"type": "api_key", "config": {"key": "X", "value": "v", "in": "{{ get_variable('in') }}"}}`, ``), true},
		"one method":                   {with(`{"type": "none"}`, `, "method": "PROPFIND"`), true},
		"methods":                      {with(`{"type": "none"}`, `, "method": ["GET", "POST"]`), true},
		"a small method":               {with(`{"type": "none"}`, `, "method": ["GET", "post"]`), false},
		"a misspelt method":            {with(`{"type": "none"}`, `, "method": ["POTS"]`), false},
		"plain http":                   {strings.Replace(with(`{"type": "none"}`, ``), "https:", "http:", 1), false},
		"plain http that is allowed":   {strings.Replace(with(`{"type": "none"}`, `, "egress": {"plain_http": "api.example.com"}`), "https:", "http:", 1), true},
		"an unclosed template":         {with(`{"type": "bearer", "config": {"token": "{{ get_secret('a')"}}`, ``), false},
		"one in a header":              {with(`{"type": "none"}`, `, "headers": [{"name": "X-A", "value": "{{ get_secret('a') }} {{"}]`), false},
		"one in the URL":               {strings.Replace(with(`{"type": "none"}`, ``), ".com", ".com/{{ tenant_id }", 1), false},
		"templates that are closed":    {with(`{"type": "bearer", "config": {"token": "{{ json_encode({'a': {}}) }}{{ '{{' }}{"}}`, ``), true},
		"an unknown member":            {with(`{"type": "none"}`, `, "x-note": "a"`), false},
		"a time":                       {with(`{"type": "none"}`, `, "timeout": "1m30.5s"`), true},
		"a time without a unit":        {with(`{"type": "none"}`, `, "timeout": "30"`), false},
		"a limit":                      {with(`{"type": "none"}`, `, "limits": {"per_user": 0.5, "concurrent": 1}`), true},
		"a limit of nothing":           {with(`{"type": "none"}`, `, "limits": {"per_user": 0}`), false},
		"no connectors":                {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			document := testworld.Must(jsonschema.UnmarshalJSON(strings.NewReader(test.file)))(t)
			if err := compiled.Validate(document); (err == nil) != test.valid {
				t.Errorf("schema: valid: %t, want %t: %v", err == nil, test.valid, err)
			}
			set, err := Read(t.Context(), "connectors.yaml", []byte(test.file), Options{})
			if (err == nil) != test.valid {
				t.Errorf("loader: valid: %t, want %t: %v", err == nil, test.valid, err)
			}
			if err == nil {
				_ = set.Close(t.Context())
			}
		})
	}
}

// The texts of a plugin are texts in an editor, and nothing that it follows or loads (threats.md 206).
func TestTextsOfPluginsInASchema(t *testing.T) {
	const evil = "[x](command:workbench.action.terminal.new) ![](https://evil.example/a.png) \x1b[2J {\"$ref\": \"https://evil.example/s.json\"}"
	_, text := compiledSchema(t, []host.PluginInfo{{Description: abi.Description{
		Type: "evil", Aliases: []string{"evil_too"}, Summary: evil,
		Fields: []abi.Field{
			{Name: "a", Kind: abi.KindString, Doc: evil, Enum: []string{"x", evil}, Suggested: []string{evil}, Required: true},
			{Name: "b", Kind: abi.KindString, Pattern: "[a-z]", PatternMessage: evil},
		},
	}}})
	var document any
	testworld.Check(t, json.Unmarshal(text, &document))
	eachSchema(document, func(s schema) {
		for name, below := range s {
			switch {
			case name == "$ref" && below != "#/definitions/evil" && below != "#/definitions/auth-element":
				t.Errorf("the schema refers to %v", below)
			case strings.HasPrefix(name, "markdown"), name == "defaultSnippets", name == "$id":
				t.Errorf("the schema has %s: %v", name, below)
			}
			shown := strings.Contains(strings.ToLower(name), "description") || name == "patternErrorMessage"
			if said := fmt.Sprint(below); shown && host.Printable(said) != said {
				t.Errorf("%s is %q", name, said)
			}
		}
	})
}

// An editor shows the words of a plugin for a text that does not match the pattern of its field, under each name of the field.
func TestWordsOfAPatternInASchema(t *testing.T) {
	_, text := compiledSchema(t, []host.PluginInfo{{Description: abi.Description{Type: "custom", Fields: []abi.Field{
		{Name: "label", Aliases: []string{"tag"}, Kind: abi.KindString, Pattern: "[a-z]+", PatternMessage: "has more than small letters"},
		{Name: "other", Kind: abi.KindString, Pattern: "[a-z]+", PatternMessage: "is wrong"},
	}}}})
	for want, times := range map[string]int{
		`{"pattern":"^(?:[a-z]+)$","patternErrorMessage":"This has more than small letters.","type":"string"}`: 2,
		`{"pattern":"^(?:[a-z]+)$","patternErrorMessage":"This is wrong.","type":"string"}`:                    1,
	} {
		compact := new(bytes.Buffer)
		testworld.Check(t, json.Compact(compact, text))
		if n := strings.Count(compact.String(), want); n != times {
			t.Errorf("%s is there %d times, want %d:\n%s", want, n, times, text)
		}
	}
}

// The schema grows by what each plugin has.
func TestSchemaOfManyPlugins(t *testing.T) {
	size := func(n int) int {
		all := make([]host.PluginInfo, n)
		for i := range all {
			all[i].Type = fmt.Sprintf("type_%05d", i)
			for j := range 20 {
				all[i].Fields = append(all[i].Fields, abi.Field{Name: fmt.Sprintf("field_%d", j), Kind: abi.KindString, Doc: "Some field."})
			}
		}
		text := testworld.Must(Schema(all))(t)
		return len(text)
	}
	none, some, twice := size(0), size(32), size(64)
	if got, want := twice-none, 2*(some-none); got > want+want/100 {
		t.Errorf("64 plugins take %d bytes, and 32 take %d", got, some-none)
	}
}

// A schema needs the plugins of a file, and the rest may be wrong: somebody is writing it.
func TestPlugins(t *testing.T) {
	dir, builtIns := t.TempDir(), len(builtInTypes(t))
	name, o := filepath.Join(dir, "connectors.yaml"), Options{Host: host.Config{CodeCache: filepath.Join(dir, "code")}}
	module, err := os.ReadFile("../../examples/acme_hmac/acme_hmac.wasm")
	testworld.Check(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "acme_hmac.wasm"), module, 0o600)))
	for _, test := range []struct{ file, wrong string }{
		{"connectors:\n  - name: A\n    auth: {type: acme_hmca}\nplugins: [{path: acme_hmac.wasm}]\n", ""},
		{"plugins: [{path: acme_hmac.wasm}]\n", ""},
		{"connectors: [\n", name + ":2:1: is not well-formed YAML"},
		{"[]\n", name + ":1:1: is a list: an object with the member connectors is wanted"},
		{"plugins: acme_hmac.wasm\n", name + ":1:10: plugins: is text: a list of plugins, each beginning with a hyphen, is wanted"},
		{"plugins: [{path: other.wasm}]\n", name + ":1:18: plugins[0].path: names a file that does not exist"},
		{"plugins: [{path: acme_hmac.wasm, sha256: ab}]\n", name + ":1:42: plugins[0].sha256: is not 64 hexadecimal digits"},
	} {
		testworld.Check(t, os.WriteFile(name, []byte(test.file), 0o600))
		all, err := Plugins(t.Context(), name, o)
		switch {
		case test.wrong != "":
			if err == nil || !strings.HasPrefix(err.Error(), test.wrong) {
				t.Errorf("%q: got %v, want %s", test.file, err, test.wrong)
			}
		case err != nil:
			t.Errorf("%q: err = %v", test.file, err)
		case all[len(all)-1].Type != "acme_hmac" || len(all) != builtIns+1:
			t.Errorf("%q: the last of %d types is %s", test.file, len(all), all[len(all)-1].Type)
		}
	}
	testworld.Fails(Plugins(t.Context(), filepath.Join(dir, "other.yaml"), o))(t, "there is no such file")
}
