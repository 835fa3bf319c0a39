package problem_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

func TestProblemLine(t *testing.T) {
	for want, p := range map[string]problem.Problem{
		" is empty":        {Message: "is empty"},
		" a.b: is empty":   {Path: "a.b", Message: "is empty"},
		"3:10: is empty":   {Line: 3, Column: 10, Message: "is empty"},
		"3:1: a: is empty": {Line: 3, Column: 1, Path: "a", Message: "is empty"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Columns count characters, also if a text begins in the middle of one.
func TestPlacesBehindATextCountCharacters(t *testing.T) {
	from := problem.Place{Line: 3, Column: 5}
	for text, want := range map[string]problem.Place{
		"": from, "abc": {Line: 3, Column: 8}, "é👋": {Line: 3, Column: 7}, "\x8bé": {Line: 3, Column: 6},
		"ab\n": {Line: 4, Column: 1}, "ab\n\ncd": {Line: 5, Column: 3},
	} {
		if got := from.Advance([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A collector keeps at most Max problems, and counts the others.
func TestACollectorHasABound(t *testing.T) {
	for most, more := range map[int]int{0: 0, 1: 3, 3: 1, 4: 0, 5: 0} {
		c := problem.Collector{Max: most}
		c.Wrong("a", "is %d", 1)
		c.At(problem.Place{Line: 1, Column: 2}, "b", "is %d", 2)
		c.Wrong("c", "is %d", 3)
		if !c.Skip() {
			c.Wrong("d", "is %d", 4)
		}
		want := []problem.Problem{{Path: "a", Message: "is 1"}, {Line: 1, Column: 2, Path: "b", Message: "is 2"}, {Path: "c", Message: "is 3"}, {Path: "d", Message: "is 4"}}
		if got := fmt.Sprint(c.Problems); got != fmt.Sprint(want[:4-more]) || c.More != more {
			t.Errorf("of at most %d: %s and %d more", most, got, c.More)
		}
	}
}

func TestPaths(t *testing.T) {
	var root *problem.Path
	long, longest := strings.Repeat("a", 100), strings.Repeat("é", 40)
	for want, path := range map[string]*problem.Path{
		"":                       root,
		"[0]":                    root.Item(0),
		"a":                      root.Member("a"),
		"a.b-c_D[12].e":          root.Member("a").Member("b-c_D").Item(12).Member("e"),
		`a["b c"].d`:             root.Member("a").Member("b c").Member("d"),
		`[""]`:                   root.Member(""),
		`["\n\""]`:               root.Member("\n\""),
		long:                     root.Member(long),
		`["` + long[:40] + `"…]`: root.Member(long + "a"),
		`["` + longest + `"]`:    root.Member(longest),
		`["` + longest + `"…]`:   root.Member(longest + "e"),
	} {
		if got := path.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"api_key", "jwt", "client_secret", "createdAt", "proxies"}
	for name, want := range map[string]string{
		"api_kye": "api_key", "apikey": "api_key", "jtw": "jwt", "jw": "jwt", "client_secrt": "client_secret", "clientsecret": "client_secret",
		"CREATEDAT": "createdAt", "created_at": "createdAt", "proxy": "proxies", "jwts": "jwt", "none": "", "basic": "", "": "", "xyz": "", strings.Repeat("api_key", 100): "",
	} {
		if got, ok := problem.Nearest(name, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A name of up to 64 letters has room for two slips, a short one for one.
func TestNearestDistance(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		name, known string
		meant       bool
	}{
		{"jab", "jwt", false},
		{"jwb", "jwt", true},
		{"abc", "abcde", false},
		{"badcef", "abcdef", true},
		{"badcfe", "abcdef", false},
		{"b" + long[1:], long, true},
		{long[1:], long, true},
		{long + "b", long, false},
		{long, long + "b", false},
	} {
		if got, ok := problem.Nearest(c.name, []string{c.known}); ok != c.meant {
			t.Errorf("%s for %s: %q, want it to be meant: %t", c.name, c.known, got, c.meant)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for name, want := range map[string]string{"api_kye": `; did you mean "api_key"?`, "basic": "; there are api_key, jwt"} {
		if got := problem.DidYouMean(name, []string{"api_key", "jwt"}); got != want {
			t.Errorf("%s: got = %s", name, got)
		}
	}
}

// threats.md 240, 250, 282: a line without its values keeps the members and the place.
func TestALineWithoutItsValues(t *testing.T) {
	const secret = "a-Credential-0815"
	for name, c := range map[string]struct {
		line, place, want, under string
	}{
		"misspelt":      {"    client_secrt: " + secret, "client_secrt", "    client_secrt: …", "    ^"},
		"value":         {"  - auth: hello " + secret, "hello", "  - auth: …", "          ^"},
		"braces":        {"  config: {key: '" + secret + ", x', value: " + secret + "}", "value", "  config: {key: …, value: …}", "                   ^"},
		"list":          {"  method: [GET, " + secret + "]", secret, "  method: […, …]", "              ^"},
		"comment":       {"  # " + secret + ": x", "#", "  …", "  ^"},
		"key":           {"  " + secret + ": x", secret, "  …", "  ^"},
		"continued":     {"  " + secret + " url: b", "url", "  …", "  ^"},
		"colon":         {"  value: hunter: " + secret, "hunter", "  value: …", "         ^"},
		"colons":        {"  config: {value: hunter: " + secret + ", key: - x}", "hunter", "  config: {value: …, key: …}", "                  ^"},
		"end":           {"  url:", "", "  url:", "      ^"},
		"open":          {"  auth: {type: \"" + secret, "\"", "  auth: {type: …", "               ^"},
		"markup":        {"  url: <b>" + secret + "</b>", "<b>", "  url: …", "       ^"},
		"carriage":      {"  url: x\r", "x", "  url: …", "       ^"},
		"upper letters": {"  AKIAIOSFODNN: x", "AKIA", "  …", "  ^"},
		"long":          {"  method: [" + strings.Repeat("a, ", 100) + "b]", "method", "  method: [" + strings.Repeat("…, ", 49) + "…,…", "  ^"},
		"long, at end":  {strings.Repeat("- ", 90) + secret, secret, strings.Repeat("- ", 90) + "…", strings.Repeat(" ", 180) + "^"},
		"empty":         {"", "", "", "^"},
		"quoted":        {"a: {b: \"" + secret + ", c: x\", d: 'e}'}", "d:", "a: {b: …, d: …}", "          ^"},
	} {
		t.Run(name, func(t *testing.T) {
			at := len([]rune(c.line))
			if c.place != "" {
				before, _, _ := strings.Cut(c.line, c.place)
				at = len([]rune(before))
			}
			line, at := problem.WithoutValues(c.line, at)
			if line != c.want || strings.Repeat(" ", at)+"^" != c.under || strings.Contains(line, secret) {
				t.Errorf("the line is\n%s\n%s^", line, strings.Repeat(" ", at))
			}
		})
	}
}
