package host_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A field description that would have no effect in the host is refused, and the error says what to write instead.
func TestMisleadingFields(t *testing.T) {
	for name, test := range map[string]struct {
		field abi.Field
		want  string
	}{
		"a template as a default": {
			abi.Field{Name: "jti", Kind: abi.KindString, Default: "{{ uuid() }}"},
			"field jti: its default holds {{, but a default is no template and would be used as it is written: require the field",
		},
		"a sealed integer":   {abi.Field{Name: "pin", Kind: abi.KindInteger, Sealed: true}, "field pin: it is sealed, but integers"},
		"a sealed boolean":   {abi.Field{Name: "on", Kind: abi.KindBoolean, Sealed: true}, "leave sealed out, or make it a string without an enum"},
		"escape of a URL":    {abi.Field{Name: "u", Kind: abi.KindURL, Escape: `\{`}, "field u: only an object, or a string that is not sealed and has no enum, has escape"},
		"escape of an enum":  {abi.Field{Name: "e", Kind: abi.KindString, Enum: []string{"a"}, Escape: `\{`}, "has no enum, has escape"},
		"escape of a secret": {abi.Field{Name: "s", Kind: abi.KindString, Sealed: true, Escape: `\{`}, "is not sealed and has no enum, has escape"},
		"escape of letters":  {abi.Field{Name: "t", Kind: abi.KindString, Escape: `\{é`}, "field t: escape holds a character that is not printable ASCII"},
		"escape of a space":  {abi.Field{Name: "t", Kind: abi.KindString, Escape: `\ `}, "not printable ASCII, or a space"},
		"escape without \\":  {abi.Field{Name: "o", Kind: abi.KindObject, Escape: `{`}, `field o: escape lacks \`},
		"a sealed enum":      {abi.Field{Name: "in", Kind: abi.KindString, Enum: []string{"a"}, Sealed: true}, "field in: it is sealed, but"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &guest{}
			g.about.Fields = []abi.Field{test.field}
			testworld.WantError(t, "", loadError(t, g), test.want)
		})
	}
}

// An answer has a name of at most 64 bytes, and its source is a field whose text the plugin sees as it was written.
func TestInvalidDescribedAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		name, field string
		want        string
	}{
		"a name of 64 bytes":         {strings.Repeat("n", 64), "pointer", ""},
		"a name of 65 bytes":         {strings.Repeat("n", 65), "pointer", "is there twice or is a name that no answer may have"},
		"a field that is not there":  {"token", "other", "from_field names no field"},
		"an integer":                 {"token", "number", "from_field names no field"},
		"a sealed field":             {"token", "secret", "from_field names no field"},
		"one of a list":              {"token", "choice", "from_field names no field"},
		"a field that has escape":    {"token", "escaped", "from_field names no field"},
		"a field of the right kind":  {"token", "pointer", ""},
		"no field and no other from": {"token", "", "it has either from or from_field"},
	} {
		g := &guest{}
		g.about.Uses = []string{contract.GroupToken}
		g.about.Fields = []abi.Field{
			{Name: "number", Kind: abi.KindInteger},
			{Name: "secret", Kind: abi.KindString, Sealed: true},
			{Name: "pointer", Kind: abi.KindString},
			{Name: "choice", Kind: abi.KindString, Enum: []string{"a"}},
			{Name: "escaped", Kind: abi.KindString, Escape: `\{`},
		}
		g.about.Answers = []abi.Answer{{Name: test.name, FromField: test.field, Kind: contract.AnswerInteger}}
		testworld.WantError(t, name, loadError(t, g), test.want)
	}
}

// The host loads the first types of plugins.Types by default.
func TestTypesOfTheDefaultPlugins(t *testing.T) {
	h := must(host.New(t.Context(), host.Config{}))(t)
	defer h.Close(t.Context())
	var types []string
	for _, p := range h.Plugins() {
		types = append(append(types, p.Type), p.Aliases...)
	}
	if len(types) != 6 || !slices.Equal(types, plugins.Types()[:6]) {
		t.Errorf("the default plugins have the types %q, and plugins.Types returns %q", types, plugins.Types())
	}
}

// A host has the built-in types that its configuration names, and after them those of its plugins.
func TestAHostWithSomeOfTheBuiltIns(t *testing.T) {
	none, apiKey := host.Plugin{Name: "none.wasm", Wasm: plugins.None()}, host.Plugin{Name: "apikey.wasm", Wasm: plugins.APIKey()}
	for name, c := range map[string]struct {
		config host.Config
		want   []string
	}{
		"one":             {host.Config{BuiltIns: []host.Plugin{apiKey}}, []string{"api_key true"}},
		"none":            {host.Config{BuiltIns: []host.Plugin{}}, nil},
		"one and another": {host.Config{BuiltIns: []host.Plugin{apiKey}, Plugins: []host.Plugin{none}}, []string{"api_key true", "none false"}},
	} {
		h := must(host.New(t.Context(), c.config))(t)
		var got []string
		for _, p := range h.Plugins() {
			got = append(got, fmt.Sprint(p.Type, " ", p.BuiltIn))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: there are %q, want %q", name, got, c.want)
		}
		check(t, h.Close(t.Context()))
	}
}

// aboutGuest returns a guest that says where it and its credential come from.
func aboutGuest(homepage, license, obtain string) *guest {
	g := &guest{about: abi.Description{Homepage: homepage, License: license}}
	g.about.Fields = []abi.Field{{
		Name: "key", Kind: abi.KindString, Required: true, Sealed: true, Sinks: []string{contract.SinkHeader}, Doc: "The key.", Obtain: obtain,
	}, {Name: "other", Kind: abi.KindString, Obtain: "From a colleague."}}
	return g
}

// What a plugin says of itself is printable, of a bounded length, and its page is one of https (threats.md 184).
func TestTextsAboutAPlugin_threats_184(t *testing.T) {
	long := strings.Repeat("x", 513)
	for name, c := range map[string]struct{ homepage, license, obtain, want string }{
		"all":                     {"https://acme.example/keywright", "Apache-2.0 OR MIT", "Under Settings, API keys.", ""},
		"none":                    {"", "", "", ""},
		"the longest":             {"https://acme.example/" + long[:512-21], long[:512], long[:512], ""},
		"a long page":             {"https://acme.example/" + long, "", "", "homepage has more than 512 bytes"},
		"a long licence":          {"", long, "", "license has more than 512 bytes"},
		"a long text":             {"", "", long, "field key: obtain has more than 512 bytes"},
		"an escape":               {"", "", "a\x1b[2J", "field key: obtain has more than 512 bytes, or characters that cannot be printed"},
		"a line break":            {"", "MIT\nrm", "", "license has"},
		"text in another order":   {"", "", "a\u202eb", "field key: obtain has"},
		"an escape in a page":     {"https://acme.example/\x1b]8;;", "", "", "homepage has"},
		"http":                    {"http://acme.example", "", "", "homepage is no https URL of a page"},
		"a script":                {"javascript:alert(1)", "", "", "homepage is no https URL of a page"},
		"a page without a host":   {"https:///x", "", "", "homepage is no https URL of a page"},
		"a page that looks other": {"https://bank.example@evil.example/", "", "", "homepage is no https URL of a page"},
	} {
		testworld.WantError(t, name, loadError(t, aboutGuest(c.homepage, c.license, c.obtain)), c.want)
	}
}

// Editors and errors say how to get a credential.
func TestHowToGetACredential(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(aboutGuest("https://acme.example/", "MIT", "Under Settings, API keys.")))
	if got := w.problems("custom", config{}); len(got) != 1 || got[0] != "auth.config.key: is missing: The key. Under Settings, API keys" {
		t.Errorf("got = %q", got)
	}
	text := must(w.host.Plugins()[0].Schema())(t)
	for _, want := range []string{`"description":"A guest of a test. https://acme.example/"`, `"description":"The key. Under Settings, API keys."`, `"description":"From a colleague."`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s in %s", want, text)
		}
	}
}

// A description with all that contract 1 has is accepted; consent is left out, because it excludes a seed. The document belongs to the promise in ABI.md: once Keywright is
// released, it grows, and nothing of it changes or leaves.
func TestContractOneStability(t *testing.T) {
	document := must(os.ReadFile("testdata/contract1.json"))(t)
	check(t, loadError(t, &guest{output: string(document)}))
}

// A module of another contract is refused by its number alone, whatever else it says. One of this contract that has more than this
// host knows is refused by what it has (threats.md 185).
func TestUnknownContract_threats_185(t *testing.T) {
	const rest = `"type":"custom","version":"1.0.0","summary":"s"}`
	for output, want := range map[string]string{
		`{"abi":2,` + rest:                                  "describe: abi is 2, this host knows 1: the module is of a contract that a later Keywright may know",
		`{"abi":2,"magic":["x"],"fields":"none"}`:           "describe: abi is 2, this host knows 1: ",
		`{"abi":0,` + rest:                                  "describe: abi is 0, this host knows 1: no plugin has that contract",
		`{` + rest:                                          "describe: abi is 0, this host knows 1: ",
		`{"abi":-1,` + rest:                                 "describe: abi is -1, this host knows 1: ",
		`{"abi":1,"abi":2,` + rest:                          "describe: its output has two members of one name",
		`{"abi":"1",` + rest:                                `describe: its output has a value of the wrong type at "/abi"`,
		`{"abi":1,"magic":true,` + rest:                     `describe: its output has an unknown member at "/magic", which a later Keywright may know`,
		`{"abi":1,"fields":[{"nome":"x"}],` + rest:          `describe: its output has an unknown member at "/fields/0/nome", which a later`,
		`{"abi":1,"magic":true,"fields":"none",` + rest:     `describe: its output has `,
		`{"abi":1,"fields":[{"name":"x","kind":1}],` + rest: `describe: its output has a value of the wrong type at "/fields/0/kind"`,
	} {
		err := loadError(t, &guest{output: output})
		if err == nil || !strings.HasPrefix(err.Error(), `plugin "guest": `+want) || strings.Contains(want, "wrong type") && strings.Contains(err.Error(), "later") {
			t.Errorf("%s: %v, want %q", output, err, want)
		}
	}
}

// compiled compiles a schema.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	document := must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	compiler := jsonschema.NewCompiler()
	check(t, compiler.AddResource("auth.json", document))
	schema, err := compiler.Compile("auth.json")
	if err != nil {
		t.Fatalf("err = %v\ntext = %s", err, text)
	}
	return schema
}

// validates checks for configurations of a guest whether its schema accepts them, and returns the schema.
func validates(t *testing.T, g *guest, valid map[string]bool) string {
	t.Helper()
	h := must(host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}}))(t)
	defer h.Close(t.Context())
	text := must(h.Plugins()[0].Schema())(t)
	schema := compiled(t, text)
	for config, valid := range valid {
		document := must(jsonschema.UnmarshalJSON(strings.NewReader(`{"type":"custom","config":` + config + `}`)))(t)
		if err := schema.Validate(document); (err == nil) != valid {
			t.Errorf("%s is valid: %t, want %t: %v\n%s", config, err == nil, valid, err, text)
		}
	}
	return string(text)
}

// A plugin's JSON Schema accepts what a connector may have, and refuses what Connect refuses.
func TestSchema(t *testing.T) {
	bearer := func(change string) string {
		return `{"type":"oauth_jwt_bearer","config":{"client_id":"a","private_key":"{{ get_secret('k') }}",` +
			`"token_url":"https://login.example/token","subject":"s","audience":"a"` + change + `}}`
	}
	tests := []struct {
		name, auth string
		valid      bool
	}{
		{"none", `{"type":"none"}`, true},
		{"none, empty config", `{"type":"none","config":{}}`, true},
		{"none, null config", `{"type":"none","config":null}`, true},
		{"none, a field", `{"type":"none","config":{"a":1}}`, false},
		{"another type", `{"type":"other"}`, false},
		{"unknown member", `{"type":"none","extra":1}`, false},
		{"api_key", `{"type":"api_key","config":{"key":"X","value":"v","in":"header"}}`, true},
		{"alias", `{"type":"apikey","config":{"key":"X","value":"v","in":"query"}}`, true},
		{"no config", `{"type":"api_key"}`, false},
		{"missing field", `{"type":"api_key","config":{"key":"X","in":"header"}}`, false},
		{"misspelt field", `{"type":"api_key","config":{"key":"X","value":"v","in":"header","vlaue":"v"}}`, false},
		{"value of no enum", `{"type":"api_key","config":{"key":"X","value":"v","in":"body"}}`, false},
		{"template where an enum is", `{"type":"api_key","config":{"key":"X","value":"v","in":"{{ get_variable('in') }}"}}`, true},
		{"blank value", `{"type":"api_key","config":{"key":"X","value":"  ","in":"header"}}`, false},
		{"number for text", `{"type":"api_key","config":{"key":1,"value":"v","in":"header"}}`, false},
		{"bearer", bearer(``), true},
		{"integer", bearer(`,"token_ttl":600`), true},
		{"integer as text", bearer(`,"token_ttl":"600"`), true},
		{"integer as template", bearer(`,"token_ttl":"{{ get_variable('ttl') }}"`), true},
		{"integer too small", bearer(`,"token_ttl":0`), false},
		{"fraction", bearer(`,"token_ttl":1.5`), false},
		{"text for an integer", bearer(`,"token_ttl":"soon"`), false},
		{"object", bearer(`,"additional_claims":{"a":[1,{"b":null}]}`), true},
		{"text for an object", bearer(`,"additional_claims":"{{ x }}"`), false},
		{"algorithm", bearer(`,"algorithm":"ES256"`), true},
		{"no algorithm", bearer(`,"algorithm":"none"`), false},
		{"jwt", `{"type":"jwt","config":{"private_key":"k","claims":{}}}`, true},
		{"no URL", `{"type":"oauth_client_credentials","config":{"client_id":"a","client_secret":"b","token_url":"login.example"}}`, false},
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, plugin := range newWorld(t).host.Plugins() {
		schemas[plugin.Type] = compiled(t, must(plugin.Schema())(t))
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			document := must(jsonschema.UnmarshalJSON(strings.NewReader(test.auth)))(t)
			authType, _ := document.(map[string]any)["type"].(string)
			if authType == "apikey" {
				authType = "api_key"
			}
			schema := schemas[authType]
			if schema == nil {
				schema = schemas["none"]
			}
			if err := schema.Validate(document); (err == nil) != test.valid {
				t.Errorf("valid: %t, want %t: %v", err == nil, test.valid, err)
			}
		})
	}
}

// A schema has the default of each field that has one, as a number if the field is an integer.
func TestDefaultsOfASchema(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: abi.Description{Fields: []abi.Field{
		{Name: "text", Kind: abi.KindString, Default: "a"},
		{Name: "no-text", Kind: abi.KindString},
		{Name: "number", Kind: abi.KindInteger, Default: "7"},
		{Name: "no-number", Kind: abi.KindInteger},
	}}}))
	text := must(w.host.Plugins()[0].Schema())(t)
	var schema struct {
		Properties struct {
			Config struct{ Properties map[string]map[string]any }
		}
	}
	check(t, json.Unmarshal(text, &schema))
	for name, want := range map[string]any{"text": "a", "no-text": nil, "number": 7.0, "no-number": nil} {
		field, there := schema.Properties.Config.Properties[name]
		got, has := field["default"]
		if !there || got != want || has != (want != nil) {
			t.Errorf("the default of %s is %v in %v, not %v", name, got, field, want)
		}
	}
}

// A schema refuses a blank text where one is needed, or where a secret or a key would be blank. Other texts may be blank. The
// schema of fields without conditions has no conditions.
func TestBlankTextsInASchema(t *testing.T) {
	optional := abi.Field{Name: "value", Kind: abi.KindString}
	required, sealed, key := optional, sealedField("value", contract.SinkHeader), optional
	required.Required = true
	key.Kind, key.AlgorithmField = abi.KindKey, "algorithm"
	for name, c := range map[string]struct {
		field abi.Field
		blank bool
	}{
		"optional": {optional, true}, "required": {required, false}, "sealed": {sealed, false}, "a key": {key, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: abi.Description{Fields: []abi.Field{
				c.field, {Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "HS256"},
			}}}))
			text := must(w.host.Plugins()[0].Schema())(t)
			if strings.Contains(string(text), `"if"`) {
				t.Errorf("there is a condition: %s", text)
			}
			schema := compiled(t, text)
			for value, valid := range map[string]bool{"a": true, "": c.blank, "\t": c.blank} {
				config := map[string]any{"type": "custom", "config": map[string]any{"value": value}}
				if err := schema.Validate(config); (err == nil) != valid {
					t.Errorf("%q: err = %v\ntext = %s", value, err, text)
				}
			}
		})
	}
}
