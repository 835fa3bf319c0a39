package expr

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// A pattern with a large program, or one that takes long to parse, is refused before it is parsed or compiled (threats.md
// 56).
func TestPatternBound(t *testing.T) {
	repeat := strings.Repeat
	for name, c := range map[string]struct{ pattern, want string }{
		"repetitions in repetitions": {repeat("((a{0,30}){0,30})", 18), "too large: repeat less"},
		"a few of the most":          {"a{1000}b{1000}c{1000}d{1000}e{1000}", "too large"},
		"many of the most":           {repeat("a{1000}", 6400), "too long to read"},
		"open ends":                  {"((a{30,}){30,})*(b{200,}){4,}(?:c{9}|d{9}){60}(ef){500,}", "too large"},
		"a long text":                {repeat("[ab]", MaxReading/8/4+1), "too long to read"},
		"a range that ignores case":  {"(?i)[ -\U0001e000]", "too long to read"},
		"a range in numbers":         {`(?s-Ui:[ -\x{1e000}])`, "too long to read"},
		"classes of Unicode":         {"[" + repeat(`\pL\PN`, 40) + "]", "too long to read"},
		"what the parser refuses":    {"(a{1000}){1000}", "invalid repeat count"},
		"more than one is counted":   {"a{1000}' || response.body matches '" + "b{1000}' || response.body matches 'c{1000}' || response.body matches 'd{1000}' || response.body matches 'e{1000}", "too large"},
		"more than one takes time":   {"(?i)[a-\u9fff]' || response.body matches '(?i)[a-\u9fff]", "too long to read"},
	} {
		source := "response.body matches '" + strings.ReplaceAll(c.pattern, `\`, `\\`) + "'"
		if _, found := compileWhole(source, new(lookups).language()); len(found) != 1 || !strings.Contains(found[0].Message, c.want) || found[0].Column < 19 {
			t.Errorf("%s: got %v, want %s", name, found, c.want)
		}
	}

	t.Run("all of a file", func(t *testing.T) {
		for pattern, most := range map[string]int{"a{1000}b{1000}": MaxPrograms / 2002, `\pL\pN\pS`: MaxReadings / (3*1024 + 8*9)} {
			all := &Patterns{}
			for n := range most + 1 {
				_, problem := all.Source().compile(pattern)
				if refused := strings.Contains(problem, "all patterns together"); refused != (n == most) {
					t.Fatalf("%s, %d times: %v", pattern, n+1, problem)
				}
			}
		}
	})

	t.Run("what people write", func(t *testing.T) {
		for _, pattern := range []string{
			`(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,63}$`, `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, `(?i)[а-яё]+`, `[\x{0}-\x{10FFFF}]`, `(?i)[一-龥]`,
			`^\p{Lu}\p{L}*$`, `^.{0,1000}$`, `(?is)<title>(.*?)</title>`, `^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|$)){4}`,
		} {
			if _, problem := new(Patterns).Source().compile(pattern); problem != "" {
				t.Errorf("%s: problem = %s", pattern, problem)
			}
		}
	})
}

// The estimated size of a pattern is never less than that of its program.
func TestProgramSize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var write func(depth int) string
	write = func(depth int) string {
		switch n := random.IntN(6 + 7*min(depth, 1)); n {
		case 0, 1:
			return []string{"a", "xyz", "", `\d`, "[a-c]", ".", "^", `\b`, "(?i)k"}[random.IntN(9)]
		case 2, 3, 4, 5:
			return "b"
		case 6:
			return "(" + write(depth-1) + ")"
		case 7:
			return write(depth-1) + write(depth-1)
		case 8:
			return "(?:" + write(depth-1) + "|" + write(depth-1) + ")"
		case 9:
			return "(?:" + write(depth-1) + ")" + []string{"*", "+", "?", "*?"}[random.IntN(4)]
		case 10:
			return fmt.Sprintf("(?:%s){%d}", write(depth-1), random.IntN(5))
		case 11:
			return fmt.Sprintf("(?:%s){%d,}", write(depth-1), random.IntN(5))
		}
		least := random.IntN(4)
		return fmt.Sprintf("(?:%s){%d,%d}", write(depth-1), least, least+random.IntN(4))
	}
	for range 20_000 {
		pattern := write(6)
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue
		}
		estimate := programSize(tree) + 2
		program := testworld.Must(syntax.Compile(tree.Simplify()))(t)
		if size := len(program.Inst); min(size, MaxProgram+1) > estimate {
			t.Fatalf("%s has %d instructions, %d were told", pattern, size, estimate)
		}
	}
}

// tryMatch matches a value in r, or in a new run if r is nil.
func tryMatch(t *testing.T, r *Run, value any, p *pattern) (found bool, err *Error) {
	defer catch(&err)
	if r == nil {
		own := NewBodyRun(t.Context(), nil, bodyLimits)
		r = &own
	}
	return r.matches(value, p), nil
}

// Matching takes steps for the pattern's instructions for each byte, and stops when they are used up.
func TestMatchingTakesSteps(t *testing.T) {
	p, problem := new(Patterns).Source().compile("(a?){500}b")
	if problem != "" {
		t.Fatal(problem)
	}
	for _, length := range []int{0, 1, 100, 10_000} {
		r := NewBodyRun(t.Context(), nil, bodyLimits)
		if found, err := tryMatch(t, &r, strings.Repeat("a", length), p); err != nil || found != false {
			t.Errorf("%d bytes: %v, %v", length, found, err)
		}
		if least := 1500 * length / stepWork; r.steps < least || r.steps > 3*least+500 {
			t.Errorf("%d bytes take %d steps, want %d or some more", length, r.steps, least)
		}
	}
	r := NewBodyRun(t.Context(), nil, bodyLimits)
	r.steps = bodyLimits.Steps - 1000
	if _, err := tryMatch(t, &r, strings.Repeat("a", 10_000), p); err == nil || r.steps > bodyLimits.Steps+p.size {
		t.Errorf("it went on for %d steps, %v", r.steps-bodyLimits.Steps, err)
	}
	r = NewBodyRun(t.Context(), nil, bodyLimits)
	if found, err := tryMatch(t, &r, "b"+strings.Repeat("a", 1<<20), p); err != nil || found != true || r.steps > 1000 {
		t.Errorf("what is found at the beginning took %d steps: %v, %v", r.steps, found, err)
	}
}

// A long text, which is matched in steps, matches as with package regexp.
func TestLongTextsMatch(t *testing.T) {
	for _, pattern := range []string{`b$`, `^a+b$`, `a\z`, `\xff`, `�`, `ä`, `(?i)Ä$`, `\bx`, `^$`, `.`, `^\C*$`, `[^a]b`} {
		p, problem := new(Patterns).Source().compile(pattern)
		if problem != "" {
			continue
		}
		for _, tail := range []string{"", "b", "\xff", "ä", "äb", "a\xc3", " x", "\n"} {
			s := strings.Repeat("a", direct/3) + tail
			want := regexp.MustCompile(pattern).MatchString(s)
			if got, err := tryMatch(t, nil, s, p); err != nil || got != want {
				t.Errorf("…%q matches %q is %v, %v; want %v", tail, pattern, got, err, want)
			}
		}
	}
	p, _ := new(Patterns).Source().compile("a")
	if got, err := tryMatch(t, nil, nil, p); got != false || err != nil {
		t.Errorf("null matches: %v, %v", got, err)
	}
	if _, err := tryMatch(t, nil, 1, p); err == nil {
		t.Error("a number is looked into")
	}
}

// The costs of a pattern are counted in instructions, and in units of parsing: eight for a byte, 1024 for a class of Unicode,
// and in a pattern that ignores case, one for each character up to the end of a range. docs/gateway.md has the same numbers.
func TestCostsOfPatterns(t *testing.T) {
	const folded = 0x1e944 // the first character behind all that have another case
	for pattern, want := range map[string]struct{ instructions, units int }{
		"":                     {3, 0},
		"abc":                  {5, 24},
		"a{0,30}":              {62, 56},
		"((a{0,30}){0,30})":    {1894, 136},
		"[a-z]":                {3, 40},
		"(a)":                  {5, 24},
		"(?:ab)*":              {6, 56},
		"(?:ab)+":              {5, 56},
		"(?:ab)?":              {5, 56},
		"(?:ab|cd)":            {8, 72},
		"(?:ab){3}":            {8, 72},
		"(?:ab){0}":            {3, 72},
		"(?:ab){3,}":           {10, 80},
		"(?:ab){3,5}":          {14, 88},
		`\pL\PL`:               {4, 48 + 2*1024},
		"(?i)abc":              {5, 56},
		"(?i)[a-z]":            {3, 72 + 'z'},
		"(?i)[а-я]":            {3, 88 + 'я'},
		"(?i)[a-z0-9]":         {3, 96 + 'z' + '9'},
		`(?i)[a-\x7a]`:         {3, 96 + folded},
		`(?i)[\0-\7]`:          {3, 88 + folded},
		`(?i)[+-\-]`:           {3, 80 + 128 + ']'},
		"(?i)[ -\U0001e943]":   {3, 96 + folded - 1},
		"(?i)[ -\U0001e944]":   {3, 96 + folded},
		"(?i)[ -\U0001e945]":   {3, 96 + folded},
		"(?i)a-":               {4, 48},
		"(?i)[a-]":             {3, 64 + ']'},
		"(?s-U)[ -\U0001e942]": {3, 112},
		"(?s-Ui:[a-z])":        {3, 104 + 'U' + 'z'},
	} {
		s := new(Patterns).Source()
		if _, problem := s.compile(pattern); problem != "" && want.units < MaxReading {
			t.Errorf("%s: problem = %s", pattern, problem)
		}
		if s.reading != want.units {
			t.Errorf("%s takes %d units of parsing, want %d", pattern, s.reading, want.units)
		}
		if want.units < MaxReading && s.program != want.instructions {
			t.Errorf("%s takes %d instructions, want %d", pattern, s.program, want.instructions)
		}
	}
}

// Patterns of just the limits are compiled, and those of one more are refused.
func TestLimitsOfPatterns(t *testing.T) {
	const longer, larger = "patterns take too long to read", "patterns are too large"
	most := "a{1000}b{1000}c{1000}d{1000}e{94}" // 4094, and two for match and fail
	class := func(bytes int) string { return "[" + strings.Repeat("a", bytes-2) + "]" }
	for name, c := range map[string]struct {
		patterns []string
		want     string
	}{
		"4096 instructions":                   {[]string{most}, ""},
		"4097 instructions":                   {[]string{most + "f"}, larger},
		"4096 instructions in two patterns":   {[]string{"a{1000}b{1000}", "c{1000}d{1000}e{92}"}, ""},
		"4097 instructions in two patterns":   {[]string{"a{1000}b{1000}", "c{1000}d{1000}e{93}"}, larger},
		"8 KiB":                               {[]string{class(8192)}, ""},
		"8 KiB and one byte":                  {[]string{class(8193)}, longer},
		"8 KiB in two patterns":               {[]string{class(8000), class(192)}, ""},
		"8 KiB and one byte in two patterns":  {[]string{class(8000), class(193)}, longer},
		"a backslash at the end":              {[]string{`(?i)[a-\`}, "no regular expression of RE2: trailing backslash at end of expression"},
		"a backslash and a hyphen at the end": {[]string{`(?i)a-\`}, "no regular expression of RE2: trailing backslash at end of expression"},
		"a pattern that is no regular one":    {[]string{"(hunter2"}, "no regular expression of RE2: missing closing )"},
		"a hyphen at the end, ignoring case":  {[]string{"(?i)^a-"}, ""},
		"a pattern that is not UTF-8":         {[]string{"a\xff"}, "no regular expression of RE2: invalid UTF-8"},
	} {
		s, problem := new(Patterns).Source(), ""
		for _, pattern := range c.patterns {
			if problem != "" {
				t.Errorf("%s: problem = %s", name, problem)
			}
			_, problem = s.compile(pattern)
		}
		if !strings.Contains(problem, c.want) || problem != "" && c.want == "" || strings.Contains(problem, "hunter2") {
			t.Errorf("%s: %q, want %q", name, problem, c.want)
		}
	}
}

// A match takes a step for each sixteen instructions over a byte of text.
func TestStepsOfMatches(t *testing.T) {
	for _, c := range []struct {
		pattern       string
		length, steps int
	}{
		{"b", 0, 0}, {"b", 4, 0}, {"b", 5, 1}, {"b", 100, 18}, {"bc", 100, 25}, {"bc", direct/4 - 1, direct / 16}, {"bc", 3*direct/4 - 1, 3 * direct / 16},
	} {
		p, problem := new(Patterns).Source().compile(c.pattern)
		if problem != "" {
			t.Fatal(problem)
		}
		r := NewBodyRun(t.Context(), nil, bodyLimits)
		if found, err := tryMatch(t, &r, strings.Repeat("a", c.length), p); err != nil || found || r.steps != c.steps {
			t.Errorf("%s over %d bytes takes %d steps, want %d: %t, %v", c.pattern, c.length, r.steps, c.steps, found, err)
		}
	}
}

// A Matcher compares whole texts. Its pattern counts like that of matches, and its work is bounded (threats.md 292).
func TestMatcher(t *testing.T) {
	source := new(Patterns).Source()
	m, problem := source.Matcher(`a|bc*`)
	if problem != "" {
		t.Fatal(problem)
	}
	for text, want := range map[string]bool{"a": true, "bcc": true, "": false, "ab": false, "bca": false, "a\n": false, "x\na": false} {
		if got, err := m.Match(text); got != want || err != nil {
			t.Errorf("%q matches: %t, %v, want %t", text, got, err, want)
		}
	}
	for _, pattern := range []string{`a)|(b`, `a{1000}b{1000}c{1000}d{1000}e{1000}`} {
		if _, problem := source.Matcher(pattern); problem == "" {
			t.Errorf("%s is compiled", pattern)
		}
	}
	large, problem := new(Patterns).Source().Matcher(`(?:a?){1000}[ab]*b`)
	if problem != "" {
		t.Fatal(problem)
	}
	for length, want := range map[int]bool{1000: false, 10_000: true} {
		if _, err := large.Match(strings.Repeat("a", length)); (err != nil) != want {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// The work of a Matcher counts all instructions of its pattern, with those that make it match the whole text.
func TestWorkOfAMatcher(t *testing.T) {
	const pattern = "abc"
	m, problem := new(Patterns).Source().Matcher(pattern)
	if problem != "" {
		t.Fatal(problem)
	}
	tree := testworld.Must(syntax.Parse(`\A(?:`+pattern+`)\z`, syntax.Perl))(t)
	program := testworld.Must(syntax.Compile(tree.Simplify()))(t)
	for _, text := range []string{"", "abcd"} {
		if got, want := m.Work(text), (len(text)+1)*len(program.Inst); got != want {
			t.Errorf("%q takes %d, want %d", text, got, want)
		}
	}
}
