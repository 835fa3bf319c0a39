package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// choosy returns a guest with fields that have an effect only if another field has a value or is there.
func choosy() *guest {
	g := &guest{authenticate: func(env contract.Env) (string, error) { return header("X-Name", value(env, "name")), nil }}
	g.about.Anonymous = true
	secret := sealedField("secret", abi.SinkHeader)
	secret.OnlyIf = []abi.Condition{{Field: "how", Values: []string{"post", "basic"}}, {Field: "where", Values: []string{"here"}}}
	g.about.Fields = []abi.Field{
		secret,
		{Name: "how", Kind: abi.KindString, Enum: []string{"none", "post", "basic"}, Default: "none"},
		{Name: "where", Kind: abi.KindString, Enum: []string{"here", "there"}},
		{Name: "name", Kind: abi.KindString},
		{Name: "title", Kind: abi.KindObject, OnlyIf: []abi.Condition{{Field: "name"}}},
	}
	return g
}

// A field that has no effect is refused when the connector is loaded, also one whose value a plugin does not see. If a template
// determines the other field, it may stay. The JSON Schema says the same (specification.md "a field without effect").
func TestFieldsWithoutEffect(t *testing.T) {
	const secret = "auth.config.secret: has no effect unless how is post or basic, or where is here: remove it, or change that"
	w := newWorld(t, withoutBuiltIns, withGuest(choosy()))
	text, err := w.host.Plugins()[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	for _, test := range []struct {
		name     string
		config   config
		problems []string
	}{
		{"nothing", config{}, nil},
		{"by default", config{"secret": "{{ get_secret('s') }}"}, []string{secret}},
		{"a mistake that does not matter", config{"title": "t"}, []string{"auth.config.title: has no effect unless name is there: remove it, or change that"}},
		{"by literals", config{"secret": "s", "how": "none", "where": "there"}, []string{secret}},
		{"one condition holds", config{"secret": "s", "how": "basic"}, nil},
		{"another condition holds", config{"secret": "s", "where": "here"}, nil},
		{"perhaps", config{"secret": "s", "how": "{{ get_variable('how') }}"}, nil},
		{"a mistake in the other field", config{"secret": "s", "how": "put"}, []string{"auth.config.how: is none of none, post, basic"}},
		{"without the other field", config{"title": map[string]any{}}, []string{"auth.config.title: has no effect unless name is there: remove it, or change that"}},
		{"with the other field", config{"title": map[string]any{}, "name": "{{ user.id }}"}, nil},
	} {
		if got := w.problems("custom", test.config); !slices.Equal(got, test.problems) {
			t.Errorf("%s: the problems are %q, want %q", test.name, got, test.problems)
		}
		if err := schema.Validate(map[string]any{"type": "custom", "config": test.config}); (err == nil) != (test.problems == nil) {
			t.Errorf("%s: the schema: %v", test.name, err)
		}
	}
}

// A condition of only_if that could never be checked is refused, and one of a required field.
func TestConditionsOfFieldsWithoutEffect(t *testing.T) {
	for want, f := range map[string]abi.Field{
		"only_if names no other field":                    {OnlyIf: []abi.Condition{{Field: "more"}}},
		`only_if: "put" is not in the enum of how`:        {OnlyIf: []abi.Condition{{Field: "how", Values: []string{"post", "put"}}}},
		"it is required in any case, and only_if refuses": {OnlyIf: []abi.Condition{{Field: "how"}}, Required: true},
	} {
		g := choosy()
		f.Name, f.Kind = "more", abi.KindString
		g.about.Fields = append(g.about.Fields, f)
		_, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
