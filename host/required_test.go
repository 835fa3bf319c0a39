package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// conditional returns a guest with a field that is required by the value of another: secret, if how is post or basic.
func conditional(condition ...abi.Condition) *guest {
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		value(env, "name")
		return header("X-Secret", value(env, "secret")), nil
	}}
	if condition == nil {
		condition = []abi.Condition{{Field: "how", Values: []string{"post", "basic"}}}
	}
	g.about.Anonymous = true
	secret := sealedField("secret", abi.SinkHeader)
	secret.RequiredIf, secret.Doc = condition, "The secret."
	g.about.Fields = []abi.Field{
		secret,
		{Name: "name", Kind: abi.KindString, RequiredIf: []abi.Condition{{Field: "how", Values: []string{"basic"}}, {Field: "where", Values: []string{"here"}}}},
		{Name: "how", Kind: abi.KindString, Enum: []string{"post", "basic", "none"}, Default: "post"},
		{Name: "where", Kind: abi.KindString, Enum: []string{"here", "there"}},
		{Name: "id", Kind: abi.KindString},
		{Name: "proof", Kind: abi.KindString, RequiredIf: []abi.Condition{{Field: "id"}}},
	}
	return g
}

// A field that another field's value requires is missing only then. A template counts once it is rendered.
func TestConditionallyRequiredFields(t *testing.T) {
	const missing = "auth.config.secret: is missing, and how is "
	w := newWorld(t, withoutBuiltIns, withGuest(conditional()), func(c *host.Config) { c.Variables = map[string]string{"how": "basic", "empty": " "} })
	for _, test := range []struct {
		name     string
		config   config
		problems []string
	}{
		{"by default", config{}, []string{missing + "post: The secret"}},
		{"by a literal", config{"how": "basic"}, []string{
			missing + "basic: The secret", "auth.config.name: is missing, and how is basic: it is required",
		}},
		{"by another field", config{"how": "none", "where": "here"}, []string{"auth.config.name: is missing, and where is here: it is required"}},
		{"blank", config{"how": "none", "where": "here", "name": " "}, []string{"auth.config.name: is empty"}},
		{"not", config{"how": "none", "where": "there"}, nil},
		{"by a field that is there", config{"how": "none", "id": "{{ get_variable('empty') }}"}, []string{"auth.config.proof: is missing, and id is there: it is required"}},
		{"there", config{"secret": "{{ get_secret('s') }}"}, nil},
		{"perhaps", config{"how": "{{ get_variable('how') }}"}, nil},
	} {
		if got := w.problems("custom", test.config); !slices.Equal(got, test.problems) {
			t.Errorf("%s: the problems are %q, want %q", test.name, got, test.problems)
		}
	}
	w.canary("s")
	for words, c := range map[string]config{
		"secret is missing": {"how": "{{ get_variable('how') }}", "name": "n"},
		"name is empty":     {"how": "{{ get_variable('how') }}", "name": "{{ get_variable('empty') }}", "secret": "{{ get_secret('s') }}"},
	} {
		w.refuse(w.connect("custom", c), get(t.Context()), host.StageConfig, words)
	}
	w.get(w.connect("custom", config{"how": "none"}))
}

// The JSON Schema requires a field under the same conditions.
func TestSchemaOfConditionalFields(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{conditional().plugin()}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	text, err := h.Plugins()[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	for auth, valid := range map[string]bool{
		`{}`: false, `{"secret":"s"}`: true, `{"how":"none"}`: true, `{"how":"basic","secret":"s"}`: false,
		`{"how":"basic","secret":"s","name":"n"}`: true, `{"how":"none","where":"here"}`: false, `{"how":"none","where":"there"}`: true,
		`{"how":"{{ get_variable('how') }}"}`: true, `{"how":"none","id":"i"}`: false, `{"how":"none","id":"i","proof":"p"}`: true,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"type":"custom","config":` + auth + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); (err == nil) != valid {
			t.Errorf("%s is valid: %t, want %t: %v", auth, err == nil, valid, err)
		}
	}
}

// A condition that could never hold is refused, and one that could depend on itself.
func TestImpossibleConditions(t *testing.T) {
	for want, condition := range map[string]abi.Condition{
		`required_if: "post" is not in the enum of id`:          {Field: "id", Values: []string{"post"}},
		"required_if names no other field":                      {Field: "secret", Values: []string{"post"}},
		"required_if names no other":                            {Field: "nothing"},
		`required_if: "put" is not in the enum of how`:          {Field: "how", Values: []string{"post", "put"}},
		"required_if names a field that has required_if itself": {Field: "which", Values: []string{"a"}},
	} {
		g := conditional(condition)
		g.about.Fields = append(g.about.Fields, abi.Field{
			Name: "which", Kind: abi.KindString, Enum: []string{"a"}, RequiredIf: []abi.Condition{{Field: "how", Values: []string{"post"}}},
		})
		_, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
