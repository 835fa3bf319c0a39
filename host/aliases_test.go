package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
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
	secret := sealedField("secret", abi.SinkHeader)
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
	w.canary("s")
	const template = "{{ get_secret('s') }}"
	want := w.get(w.connect("custom", config{"secret": template})).Header.Get("X-Short")
	for _, c := range []config{{"value": template}, {"key": template, "mode": "short"}} {
		connector := w.connect("custom", c)
		if got := w.get(connector).Header.Get("X-Short"); got == "" || got != want {
			t.Errorf("%v sends another value", c)
		}
		now := connector.Config().Auth.Config
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
		_, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	most := &guest{}
	most.about.Fields = []abi.Field{{Name: "a", Kind: abi.KindString, Aliases: []string{"c", "d", "e", "f", "g", "h", "i", strings.Repeat("j", 64)}}}
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{most.plugin()}})
	if err != nil {
		t.Fatalf("the most aliases: %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	g := &guest{about: abi.Description{Uses: []string{contract.GroupState}, State: []abi.State{{Name: "s", Seed: "old"}}}}
	g.about.Fields = []abi.Field{{Name: "new", Aliases: []string{"old"}, Kind: abi.KindString, Sealed: true, Sinks: []string{abi.SinkToken}}}
	if _, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}}); err == nil {
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
	w.canary("s")
	connector := w.connect("custom", config{"key": "{{ get_secret('s') }}"})
	w.refuse(connector, get(t.Context()), host.StagePlugin, "")
}

// The JSON Schema accepts former names, and refuses two names of one field.
func TestSchemaOfFormerNames(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{renamed().plugin()}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	text, err := h.Plugins()[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	var wrong []string
	for config, valid := range map[string]bool{
		`{"secret":"a"}`: true, `{"value":"a"}`: true, `{"key":"a","mode":"short"}`: true,
		`{}`: false, `{"secret":"a","value":"a"}`: false, `{"key":"a","value":"a"}`: false, `{"value":1}`: false, `{"value":"a","mode":"other"}`: false,
		`{"value":"a","mode":"long"}`: false, `{"value":"a","mode":"long","more":{}}`: true, `{"value":"a","way":"long","extra":{}}`: true,
		`{"value":"a","hint":"x"}`: false, `{"value":"a","more":{},"hint":"x"}`: true, `{"value":"a","mode":"{{ get_variable('m') }}","hint":"x"}`: true,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"type":"custom","config":` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); (err == nil) != valid {
			wrong = append(wrong, fmt.Sprintf("%s: valid is %t: %v", config, err == nil, err))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		t.Errorf("Join = %s\ntext = %s", strings.Join(wrong, "\n"), text)
	}
	if !strings.Contains(string(text), `"value":{"description":"Deprecated: use secret.","type":"string","pattern":"\\S","writeOnly":true,"deprecated":true}`) {
		t.Errorf("text = %s", text)
	}
}
