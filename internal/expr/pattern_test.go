package expr

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

// A pattern with a large program, or one that takes long to parse, is refused before it is parsed or compiled (threats.md
// 56).
func TestPatternsAreBounded(t *testing.T) {
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
		if _, found := compileWhole(source, new(world).language()); len(found) != 1 || !strings.Contains(found[0].Message, c.want) || found[0].Column < 19 {
			t.Errorf("%s: got %v, want %s", name, found, c.want)
		}
	}

	t.Run("all of a file", func(t *testing.T) {
		for pattern, most := range map[string]int{"a{1000}b{1000}": MaxPrograms / 2002, `\pL\pN\pS`: MaxReadings / (3*1024 + 8*9)} {
			all := &Patterns{}
			for n := range most + 1 {
				_, problem := all.Source().compile(pattern)
				if refused := strings.Contains(problem, "all patterns of matches together"); refused != (n == most) {
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
				t.Errorf("%s: %s", pattern, problem)
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
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
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
			s := strings.Repeat("a", direct) + tail
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
