package host_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// renamed returns a guest whose fields were renamed: secret was value and before that key, and way was mode.
func renamed() *guest {
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		if _, there := env.ConfigGet("secret"); !there {
			return "", fmt.Errorf("there is no secret")
		}
		return header("X-"+value(env, "way"), value(env, "secret")), nil
	}}
	g.validate = func(env contract.Env) error {
		if value(env, "way") == "wrong" {
			return fmt.Errorf("way: is wrong")
		}
		return nil
	}
	secret := sealedField("secret", contract.SinkHeader)
	secret.Required, secret.Aliases = true, []string{"value", "key"}
	g.about.Fields = []abi.Field{
		secret,
		{Name: "way", Aliases: []string{"mode"}, Kind: abi.KindString, Enum: []string{"long", "short", "wrong"}, Default: "short"},
		{Name: "extra", Aliases: []string{"more"}, Kind: abi.KindObject, RequiredIf: []abi.Condition{{Field: "way", Values: []string{"long"}}}},
		{Name: "hint", Kind: abi.KindString, OnlyIf: []abi.Condition{{Field: "extra"}, {Field: "way", Values: []string{"long"}}}},
	}
	return g
}

// A former name of a field works as the field does, with a warning, and means the same connector: its tokens stay.
func TestFormerNameOfAField(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(renamed()))
	const template = "{{ get_secret('s') }}"
	want := w.get(w.connect("custom", config{"secret": template})).Header.Get("X-Short")
	for _, c := range []config{{"value": template}, {"key": template, "mode": "short"}} {
		connector := w.connect("custom", c)
		if got := w.get(connector).Header.Get("X-Short"); got == "" || got != want {
			t.Errorf("%v sends another value", c)
		}
		now := connector.Config().Auth[0].Config
		if now["secret"] != template || now["value"] != nil || now["key"] != nil || c["secret"] != nil {
			t.Errorf("%v became %v", c, now)
		}
	}
	for _, warning := range []string{"auth.config.value: is a deprecated name", "auth.config.key: is a deprecated name", "auth.config.mode: is a deprecated name"} {
		if w.logged(warning) != 1 {
			t.Errorf("%d warnings with %q", w.logged(warning), warning)
		}
	}
	if w.logged("deprecated name") != 3 {
		t.Errorf("the log is %s", w.log.String())
	}
}

// Problems have the name that the configuration has. Two names of one field are a problem, whatever their values are:
// specification.md "two names of a field".
func TestProblemsOfFormerNames(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(renamed()))
	for name, c := range map[string]struct {
		config config
		want   []string
	}{
		"both":                {config{"secret": "a", "value": "a"}, []string{"auth.config.value: is a former name of secret, and secret is there too: remove it"}},
		"two former ones":     {config{"value": "a", "key": "a"}, []string{"auth.config.key: is a former name of secret, and value is there too: remove it"}},
		"a former one of two": {config{"secret": "a", "key": "a", "value": "b"}, []string{"auth.config.value: is a former", "auth.config.key: is a former"}},
		"null":                {config{"value": nil}, []string{"auth.config.value: is null"}},
		"a bad template":      {config{"value": "{{ get_secret( }}"}, []string{"auth.config.value: "}},
		"a bad value":         {config{"value": "a", "mode": "other"}, []string{"auth.config.mode: "}},
		"validate":            {config{"value": "a", "mode": "wrong"}, []string{"auth.config.mode: is wrong"}},
		"a condition":         {config{"value": "a", "mode": "long"}, []string{"auth.config.extra: is missing, and way is long"}},
		"a condition holds":   {config{"value": "a", "mode": "long", "more": config{}, "hint": "x"}, nil},
		"no condition":        {config{"value": "a", "hint": "x"}, []string{"auth.config.hint: has no effect unless"}},
		"within an object":    {config{"value": "a", "more": config{"a": "{{ x }}"}}, []string{"auth.config.more.a: "}},
		"missing":             {config{}, []string{"auth.config.secret: is missing"}},
	} {
		got := w.problems("custom", c.config)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
	w.refuse(w.connect("custom", config{"value": "{{ get_secret('none') }}"}), get(t.Context()), host.StageTemplate, "auth.config.value: ")
}

// A former name stands for one field: a plugin cannot have it mean two, or take that of another field (threats.md 183).
func TestInvalidAliases_threats_183(t *testing.T) {
	for name, c := range map[string]struct {
		aliases, others []string
		want            string
	}{
		"another field's name":  {[]string{"b"}, nil, "field a: its alias b is a name of field b already"},
		"its own name":          {[]string{"a"}, nil, "field a: its alias a is a name of field a already"},
		"twice":                 {[]string{"x", "x"}, nil, "field a: its alias x is a name of field a already"},
		"another field's alias": {[]string{"x"}, []string{"x"}, "field b: its alias x is a name of field a already"},
		"not a name":            {[]string{"x\x1b[2J"}, nil, `field a: its alias "x\\x1b[2J" is a name that no field may have`},
		"too long":              {[]string{strings.Repeat("x", 65)}, nil, "is a name that no field may have"},
		"too many":              {[]string{"c", "d", "e", "f", "g", "h", "i", "j", "k"}, nil, "there are 9 aliases, and 8 are allowed"},
	} {
		g := &guest{}
		g.about.Fields = []abi.Field{{Name: "a", Kind: abi.KindString, Aliases: c.aliases}, {Name: "b", Kind: abi.KindString, Aliases: c.others}}
		testworld.WantError(t, name, loadError(t, g), c.want)
	}
	most := &guest{}
	most.about.Fields = []abi.Field{{Name: "a", Kind: abi.KindString, Aliases: []string{"c", "d", "e", "f", "g", "h", "i", strings.Repeat("j", 64)}}}
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{most.plugin()}})
	if err != nil {
		t.Fatalf("the most aliases: %v", err)
	}
	check(t, h.Close(t.Context()))
	g := &guest{about: abi.Description{Uses: []string{contract.GroupState}, State: []abi.State{{Name: "s", Seed: "old"}}}}
	g.about.Fields = []abi.Field{{Name: "new", Aliases: []string{"old"}, Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkToken}}}
	if err := loadError(t, g); err == nil {
		t.Error("a state may begin as a former name")
	}
}

// What stands under a former name goes where the field goes, and nowhere else (threats.md 183).
func TestSinksOfAFormerName_threats_183(t *testing.T) {
	g := renamed()
	g.authenticate = func(env contract.Env) (string, error) {
		if _, there := env.ConfigGet("key"); there {
			return "", fmt.Errorf("the guest knows the former name")
		}
		return query("key", value(env, "secret")), nil
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	connector := w.connect("custom", config{"key": "{{ get_secret('s') }}"})
	w.refuse(connector, get(t.Context()), host.StagePlugin, "")
}

// The JSON Schema accepts former names, and refuses two names of one field.
func TestSchemaOfFormerNames(t *testing.T) {
	text := validates(t, renamed(), map[string]bool{
		`{"secret":"a"}`: true, `{"value":"a"}`: true, `{"key":"a","mode":"short"}`: true,
		`{}`: false, `{"secret":"a","value":"a"}`: false, `{"key":"a","value":"a"}`: false, `{"value":1}`: false, `{"value":"a","mode":"other"}`: false,
		`{"value":"a","mode":"long"}`: false, `{"value":"a","mode":"long","more":{}}`: true, `{"value":"a","way":"long","extra":{}}`: true,
		`{"value":"a","hint":"x"}`: false, `{"value":"a","more":{},"hint":"x"}`: true, `{"value":"a","mode":"{{ get_variable('m') }}","hint":"x"}`: true,
	})
	if !strings.Contains(text, `"value":{"description":"Deprecated: use secret.","type":"string","pattern":"\\S","writeOnly":true,"deprecated":true}`) {
		t.Errorf("text = %s", text)
	}
}

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
	secret := sealedField("secret", contract.SinkHeader)
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
	validates(t, conditional(), map[string]bool{
		`{}`: false, `{"secret":"s"}`: true, `{"how":"none"}`: true, `{"how":"basic","secret":"s"}`: false,
		`{"how":"basic","secret":"s","name":"n"}`: true, `{"how":"none","where":"here"}`: false, `{"how":"none","where":"there"}`: true,
		`{"how":"{{ get_variable('how') }}"}`: true, `{"how":"none","id":"i"}`: false, `{"how":"none","id":"i","proof":"p"}`: true,
	})
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
		testworld.WantError(t, want, loadError(t, g), want)
	}
}

// choosy returns a guest with fields that have an effect only if another field has a value or is there.
func choosy() *guest {
	g := &guest{authenticate: func(env contract.Env) (string, error) { return header("X-Name", value(env, "name")), nil }}
	g.about.Anonymous = true
	secret := sealedField("secret", contract.SinkHeader)
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
	text := must(w.host.Plugins()[0].Schema())(t)
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
		testworld.WantError(t, want, loadError(t, g), want)
	}
}

// A configuration of Go may have any maps and lists whose values JSON has. Other values are named by their Go type.
func TestGoTypesOfAConfiguration(t *testing.T) {
	type word string
	g := misusing(nil)
	g.about.Fields = []abi.Field{{Name: "object", Kind: abi.KindObject}, {Name: "text", Kind: abi.KindString}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	for name, c := range map[string]config{
		"a map of texts":  {"object": map[string]string{"a": "b"}},
		"texts in a map":  {"object": map[string][]string{"a": {"b", "c"}}},
		"maps in a list":  {"object": config{"a": []map[string]word{{"b": "c"}}}},
		"a kind of text":  {"text": word("a")},
		"a kind of names": {"object": map[word]any{"a": nil}},
	} {
		if got := w.problems("custom", c); len(got) != 0 {
			t.Errorf("%s: got = %q", name, got)
		}
	}
	for want, value := range map[string]any{"is a Go time.Time, text is wanted": time.Time{}, "is a list, text is wanted": []string{"a"}, "is a number, text is wanted: put it in quotes": int8(1)} {
		if got := w.problems("custom", config{"text": value}); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%T: got = %q", value, got)
		}
	}
}

// The error for a connector without a name says so.
func TestConnectorWithoutAName(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(misusing(nil)))
	_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "custom"}}})
	testworld.WantError(t, "", err, "connectors.(unnamed).name: is empty")
}

// A connector lists the secrets of each of its fields, also in objects, and the user's token.
func TestTheSecretsOfEachField(t *testing.T) {
	w := onBehalfWorld(t, cachedExchange)
	c := w.connect("custom", config{
		"subject": "{{ user.token }}", "plain": "text", "url": tokenURL, "key": "{{ get_secret('k') }}",
		"object": config{"a": []any{"{{ get_secret('two') + get_secret('one') }}", "{{ get_secret('two') }}"}},
	})
	want := map[string][]string{"subject": {"user.token"}, "key": {"k"}, "object": {"one", "two"}}
	if got := c.FieldSecrets(); !maps.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("%v, and not %v", got, want)
	}
}
