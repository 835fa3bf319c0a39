package host_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// schemaOf compiles the schema of a built-in auth type with an independent implementation.
func schemaOf(t *testing.T, authType string) *jsonschema.Schema {
	t.Helper()
	h := must(host.New(t.Context(), host.Config{}))(t)
	defer h.Close(t.Context())
	for _, plugin := range h.Plugins() {
		if plugin.Type != authType {
			continue
		}
		text := must(plugin.Schema())(t)
		return compiled(t, text)
	}
	t.Fatalf("there is no auth type %s", authType)
	return nil
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
	for _, name := range []string{"none", "api_key", "oauth_client_credentials", "jwt", "oauth_jwt_bearer"} {
		schemas[name] = schemaOf(t, name)
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
