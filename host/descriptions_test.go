package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/plugins"
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
			_, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
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
		h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: err = %v", name, err)
		}
		if err == nil {
			_ = h.Close(t.Context())
		}
	}
}

// The host loads the first types of plugins.Types by default.
func TestTypesOfTheDefaultPlugins(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
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
	none, apiKey := host.Plugin{Name: "none.wasm", Wasm: plugins.None}, host.Plugin{Name: "apikey.wasm", Wasm: plugins.APIKey}
	for name, c := range map[string]struct {
		config host.Config
		want   []string
	}{
		"one":             {host.Config{BuiltIns: []host.Plugin{apiKey}}, []string{"api_key true"}},
		"none":            {host.Config{BuiltIns: []host.Plugin{}}, nil},
		"one and another": {host.Config{BuiltIns: []host.Plugin{apiKey}, Plugins: []host.Plugin{none}}, []string{"api_key true", "none false"}},
	} {
		h, err := host.New(t.Context(), c.config)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range h.Plugins() {
			got = append(got, fmt.Sprint(p.Type, " ", p.BuiltIn))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: there are %q, want %q", name, got, c.want)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The error for a built-in type that a host lacks says where to add it, and the host keeps its five types (specification.md 1.3).
func TestMissingBuiltInType(t *testing.T) {
	connect := func(h *host.Host, auth host.Auth) error {
		_, err := h.NewConnector(t.Context(), host.ConnectorConfig{Name: "desk", Origins: []string{"https://api.test"}, Auth: auth})
		return err
	}
	basic := host.Auth{Type: "basic", Config: map[string]any{"username": "ann"}}
	for _, added := range [][]host.Plugin{nil, {{Name: "basic", Wasm: plugins.Basic}}} {
		h, err := host.New(t.Context(), host.Config{Plugins: added})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		err = connect(h, basic)
		const advice = `this host does not have the auth type "basic": add its module, from package plugins, to Config.Plugins`
		if added == nil && !strings.Contains(fmt.Sprint(err), advice) || added != nil && err != nil {
			t.Errorf("with %d plugins: %v", len(added), err)
		}
		if err := connect(h, host.Auth{Type: "none"}); err != nil {
			t.Error(err)
		}
	}
}
