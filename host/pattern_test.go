package host_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// ruled returns a guest whose fields have a minimum, a maximum and patterns.
func ruled() *guest {
	least, most := int64(2), int64(5)
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		for _, field := range []string{"number", "label", "prefix", "place"} {
			value(env, field)
		}
		return header("X-Key", value(env, "pin")), nil
	}}
	g.about.Anonymous = true
	pin := sealedField("pin", contract.SinkHeader)
	pin.Pattern, pin.PatternMessage = `[0-9a-f]{8,64}`, "is not in hex, in lower case"
	g.about.Fields = []abi.Field{
		{Name: "number", Kind: abi.KindInteger, Minimum: &least, Maximum: &most},
		{Name: "label", Kind: abi.KindString, Required: true, Pattern: `[a-z][a-z0-9_.*-]*`, PatternMessage: "is no label: write it as in sig1"},
		{Name: "prefix", Kind: abi.KindString, Pattern: `[a-z]*`, PatternMessage: "is no word", Aliases: []string{"word"}, Default: "bearer", Sinks: []string{contract.SinkHeader}},
		{Name: "place", Kind: abi.KindString, Pattern: `x|y`, PatternMessage: "is neither x nor y"},
		{Name: "free", Kind: abi.KindString, Sinks: []string{contract.SinkHeader}},
		pin,
	}
	return g
}

// A literal value outside of its range, or whose whole text does not match, is a problem of the configuration.
func TestLiteralValuesAgainstTheirRules(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(ruled()))
	const label = "auth.config.label: is no label: write it as in sig1"
	for name, test := range map[string]struct {
		config config
		want   []string
	}{
		"the least":              {config{"label": "a", "number": 2}, nil},
		"the most":               {config{"label": "a", "number": 5}, nil},
		"too small":              {config{"label": "a", "number": 1}, []string{"auth.config.number: is less than 2"}},
		"too large":              {config{"label": "a", "number": 6}, []string{"auth.config.number: is more than 5"}},
		"too large, as a text":   {config{"label": "a", "number": "6"}, []string{"auth.config.number: is more than 5"}},
		"a label":                {config{"label": "sig-1.*"}, nil},
		"a part of it":           {config{"label": "sig 1"}, []string{label}},
		"one line of two":        {config{"label": "a\nb c"}, []string{label}},
		"a line break behind it": {config{"label": "a\n"}, []string{label}},
		"blank":                  {config{"label": " "}, []string{"auth.config.label: is empty"}},
		"empty, allowed":         {config{"label": "a", "prefix": ""}, nil},
		"empty, not allowed":     {config{"label": "a", "place": ""}, []string{"auth.config.place: is neither x nor y"}},
		"alternatives":           {config{"label": "a", "place": "yx"}, []string{"auth.config.place: is neither x nor y"}},
		"under a former name":    {config{"label": "a", "word": "B"}, []string{"auth.config.word: is no word"}},
		"a sealed field":         {config{"label": "a", "pin": "0123456789abcdef"}, nil},
		"a sealed field, wrong":  {config{"label": "a", "pin": "0123456789abcdeF"}, []string{"auth.config.pin: is not in hex, in lower case"}},
	} {
		if got := w.problems("custom", test.config); !slices.Equal(got, test.want) {
			t.Errorf("%s: the problems are %q, want %q", name, got, test.want)
		}
	}
}

// A value from a template is checked when the plugin asks for it, with its sealed parts. The request is not sent, and the error has the
// words of the plugin and no part of the value (threats.md 290).
func TestValuesOfTemplatesAgainstTheirRules(t *testing.T) {
	asked := map[string]bool{}
	g := ruled()
	inner := g.authenticate
	g.authenticate = func(env contract.Env) (string, error) {
		for _, f := range g.about.Fields {
			asked[f.Name] = true
			value(env, f.Name)
			asked[f.Name] = false // the guest gets here only with a value
		}
		return inner(env)
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) {
		c.Variables = map[string]string{"six": "6", "three": "3", "no-label": "not-a-label Σ", "label": "sig1", "empty": ""}
	})
	w.canary("right") // with characters that are no word
	w.setSecret("hex", "00112233445566778899")
	for _, test := range []struct{ field, value, words string }{
		{"number", "{{ get_variable('six') }}", "number is more than 5"},
		{"label", "{{ get_variable('no-label') }}", "label is no label: write it as in sig1"},
		{"place", "{{ get_variable('empty') }}", "place is neither x nor y"},
		{"prefix", "a{{ get_secret('right') }}", "prefix is no word"},
		{"pin", "{{ get_secret('right') }}", "pin is not in hex, in lower case"},
		{"pin", "{{ get_secret('hex') + 'x' }}", "pin is not in hex, in lower case"},
	} {
		clear(asked)
		c := config{"label": "a"}
		c[test.field] = test.value
		err := w.refuse(w.connect("custom", c), get(t.Context()), host.StageConfig, test.words)
		if !asked[test.field] || strings.Contains(err.Error(), "Σ") || err.Retryable() {
			t.Errorf("%s: the guest goes on: %t, the error is retryable: %t: %v", test.field, !asked[test.field], err.Retryable(), err)
		}
	}
	w.get(w.connect("custom", config{
		"label": "{{ get_variable('label') }}", "number": "{{ get_variable('three') }}", "prefix": "{{ get_variable('empty') }}", "pin": "{{ get_secret('hex') }}",
	}))
}

// A pattern that the host, or an editor, could not check is refused when the plugin is loaded. So are rules that no value follows, and
// rules of kinds of fields for which there is no such rule. An editor reads each pattern as the host does (threats.md 295).
func TestInvalidDescriptionRules(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	of := func(pattern string) abi.Field {
		return abi.Field{Name: "f", Kind: abi.KindString, Pattern: pattern, PatternMessage: "is wrong"}
	}
	with := func(change func(*abi.Field)) abi.Field {
		f := of("[a-z]+")
		change(&f)
		return f
	}
	const syntax = "its pattern has syntax that RE2 and ECMA-262 do not share"
	for name, test := range map[string]struct {
		field abi.Field
		want  string
	}{
		"a maximum of a text":           {abi.Field{Name: "f", Kind: abi.KindString, Maximum: number(1)}, "field f: only an integer has a minimum or a maximum"},
		"no value is allowed":           {abi.Field{Name: "f", Kind: abi.KindInteger, Minimum: number(2), Maximum: number(1)}, "its minimum is above its maximum"},
		"one value is allowed":          {abi.Field{Name: "f", Kind: abi.KindInteger, Minimum: number(2), Maximum: number(2)}, ""},
		"a default above the maximum":   {abi.Field{Name: "f", Kind: abi.KindInteger, Default: "2", Maximum: number(1)}, "its default is more than 1"},
		"a default that does not match": {with(func(f *abi.Field) { f.Default = "A" }), "its default is wrong"},
		"no message":                    {with(func(f *abi.Field) { f.PatternMessage = "" }), "pattern and pattern_message belong together"},
		"no pattern":                    {with(func(f *abi.Field) { f.Pattern = "" }), "pattern and pattern_message belong together"},
		"a message that is too long":    {with(func(f *abi.Field) { f.PatternMessage = strings.Repeat("m", 513) }), "field f: pattern_message has more than 512 bytes"},
		"a message that forges a line":  {with(func(f *abi.Field) { f.PatternMessage = "is\nwrong" }), "pattern_message has more than 512 bytes, or characters that cannot"},
		"of a url":                      {with(func(f *abi.Field) { f.Kind = abi.KindURL }), "only a string without an enum has a pattern"},
		"of an enum":                    {with(func(f *abi.Field) { f.Enum = []string{"a"} }), "only a string without an enum has a pattern"},
		"256 bytes":                     {of(strings.Repeat("ab", 128)), ""},
		"257 bytes":                     {of(strings.Repeat("a", 257)), "its pattern has more than 256 bytes"},
		"a control character":           {of("\x1b"), "or characters that cannot be printed"},
		"what cannot be compiled":       {of("[a-z"), "pattern: the pattern is no regular expression of RE2: missing closing ]"},
		"parentheses of no group":       {of("a)|(b"), "pattern: the pattern is no regular expression of RE2: unexpected )"},
		"a large program":               {of("a{999}b{999}c{999}d{999}e{999}"), "pattern: the patterns are too large"},
		"an anchor at the beginning":    {of("^a"), syntax},
		"an anchor at the end":          {of("a$"), syntax},
		"a flag":                        {of("(?i)a"), syntax},
		"a group with a flag":           {of("(?s:a)"), syntax},
		"the name of a group":           {of("(?P<a>a)"), syntax},
		"look-ahead":                    {of("(?=a)"), "no regular expression of RE2"},
		"a class of POSIX":              {of("[[:alpha:]]"), syntax},
		"a class of Unicode":            {of(`\pL`), syntax},
		"spaces, which differ":          {of(`\s`), syntax},
		"a quotation":                   {of(`\Qa\E`), syntax},
		"the end of the text":           {of(`a\z`), syntax},
		"a word boundary":               {of(`\ba`), syntax},
		"a code in braces":              {of(`\x{41}`), syntax},
		"a brace without a backslash":   {of("a{b}"), syntax},
		"a bracket without a backslash": {of("a]"), syntax},
		"a bracket in a class":          {of("[]a]"), syntax},
		"an empty class":                {of("[][a]"), syntax},
		"a class of all":                {of("[^][a]"), syntax},
		"classes with a -":              {of(`[-][^-][-a][a-][^-a-z\d-][\^\]-]`), ""},
		"a parenthesis behind no class": {of("[])[a]"), syntax},
		"a group behind no class":       {of("[^](?:[a]"), syntax},
		"a point":                       {of("a.c"), syntax},
		"a hyphen in a class":           {of("[-][^-][-a-c-]"), ""},
		"a number with a zero":          {of("a{01}"), syntax},
		"a second number with a zero":   {of("a{1,02}"), syntax},
		"numbers":                       {of("a{0}b{10}c{0,10}d{10,}"), ""},
		"a range that ends in a set":    {of(`[\d-z]`), syntax},
	} {
		g := &guest{}
		g.about.Fields = []abi.Field{test.field}
		testworld.WantError(t, name, loadError(t, g), test.want)
	}
}

// The patterns of all fields of a description are bounded together (threats.md 292).
func TestTotalPatternBound(t *testing.T) {
	for fields, want := range map[int]string{4: "", 5: "field e: pattern: the patterns are too large"} {
		g := &guest{}
		for i := range fields {
			g.about.Fields = append(g.about.Fields, abi.Field{Name: string(rune('a' + i)), Kind: abi.KindString, Pattern: `[a-z]{900}`, PatternMessage: "is wrong"})
		}
		testworld.WantError(t, want, loadError(t, g), want)
	}
}

// The work of comparing a long text with a large pattern is bounded (threats.md 292).
func TestALongTextAgainstALargePattern(t *testing.T) {
	g := &guest{}
	g.about.Fields = []abi.Field{{Name: "large", Kind: abi.KindString, Pattern: `(?:a?){1000}[ab]*b`, PatternMessage: "is wrong"}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	for length, want := range map[int]string{100: "is wrong", 60_000: "is too long to be compared with the pattern of the field"} {
		if got := w.problems("custom", config{"large": strings.Repeat("a", length)}); len(got) != 1 || got[0] != "auth.config.large: "+want {
			t.Errorf("%d bytes: %q, want %s", length, got, want)
		}
	}
}

// The work of comparing the texts of a call is bounded for all fields together (threats.md 297).
func TestLongTextsAgainstThePatternsOfManyFields(t *testing.T) {
	names, c := []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}, config{}
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		for _, name := range names {
			value(env, name)
		}
		return header("X-Key", "a"), nil
	}}
	g.about.Anonymous = true
	for _, name := range names {
		g.about.Fields = append(g.about.Fields, abi.Field{Name: name, Kind: abi.KindString, Pattern: `a{400}a*`, PatternMessage: "is wrong"})
		c[name] = "{{ get_variable('long') }}"
	}
	for length, want := range map[int]string{4000: "", 9000: "f4 is too long to be compared with its pattern, after those of other fields"} {
		w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Variables = map[string]string{"long": strings.Repeat("a", length)} })
		if connector := w.connect("custom", c); want == "" {
			w.get(connector)
		} else {
			w.refuse(connector, get(t.Context()), host.StageConfig, want)
		}
	}
}

// The JSON Schema has the range and the pattern, beside templates. It leaves out a pattern for which engines that try one choice after
// the other could take years (threats.md 291).
func TestSchemaOfRules(t *testing.T) {
	g := ruled()
	slow := []string{`(?:[a-z]+\.)*[a-z]+`, `(a|b)+c?`, `(?:a|a)*b`, `(?:a*)*b`, `a?a?a?`, `[a-z]*[a-z]*[a-z]*-`, `(?:a|b)(?:a|b)(?:a|b)`, `(a{1,2}){3}`, `((a+))*`}
	for i, pattern := range slow {
		g.about.Fields = append(g.about.Fields, abi.Field{Name: "slow" + string(rune('0'+i)), Kind: abi.KindString, Pattern: pattern, PatternMessage: "is wrong"})
	}
	text := validates(t, g, map[string]bool{
		`{"label":"a"}`: true, `{"label":"a b"}`: false, `{"label":""}`: false, `{"label":"{{ get_variable('l') }}"}`: true, `{"label":7}`: false,
		`{"label":"a","number":5}`: true, `{"label":"a","number":6}`: false, `{"label":"a","number":"{{ get_variable('n') }}"}`: true,
		`{"label":"a","prefix":""}`: true, `{"label":"a","word":"B"}`: false, `{"label":"a","place":"xy"}`: false, `{"label":"a","slow2":"c"}`: true,
		`{"label":"a","pin":"0123456789"}`: true, `{"label":"a","pin":"secret"}`: false, `{"label":"a","pin":"{{ get_secret('pin') }}"}`: true,
	})
	var patterns []string
	for _, found := range regexp.MustCompile(`"pattern":"(\^\(\?:[^"]*)"`).FindAllStringSubmatch(text, -1) {
		patterns = append(patterns, found[1])
	}
	slices.Sort(patterns)
	if want := []string{`^(?:[0-9a-f]{8,64})$`, `^(?:[a-z]*)$`, `^(?:[a-z]*)$`, `^(?:[a-z][a-z0-9_.*-]*)$`, `^(?:x|y)$`}; !slices.Equal(patterns, want) {
		t.Errorf("the patterns are %q, want %q", patterns, want)
	}
}

// A text with a shared secret and with what a user chooses is not compared with a pattern. Each name of a user would be a question, such
// as whether the secret begins with it (threats.md 296).
func TestSecretPatternsWithUserChoice(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(ruled()))
	const shared = ": names a secret beside what users choose, and is compared with a pattern, so that users could test guesses: leave one of them out"
	for value, wrong := range map[string]bool{
		"{{ user.username }}{{ get_secret('s') }}":               true,
		"{{ base64_encode(get_secret('s') + user.email) }}":      true,
		"{{ get_secret('s') + get_secret('s', 'user') }}":        true,
		"{{ get_secret('s', 'tenant') }}{{ user.first_name }}":   true,
		"{{ user.username }}{{ get_secret('s', 'user') }}":       false,
		"{{ user.username }}{{ get_variable('v') }}":             false,
		"{{ user.id }}{{ tenant_id }}{{ get_secret('s') }}":      false,
		"{{ get_secret('s') }}{{ get_secret('t', 'tenant') }}/a": false,
	} {
		problems := w.problems("custom", config{"label": value})
		if found := slices.Contains(problems, "auth.config.label"+shared); found != wrong || len(problems) > 1 || !wrong && len(problems) > 0 {
			t.Errorf("%s: problems = %q", value, problems)
		}
		if problems := w.problems("custom", config{"label": "a", "number": 2, "free": value}); len(problems) > 0 {
			t.Errorf("%s, without a pattern: %q", value, problems)
		}
	}
}
