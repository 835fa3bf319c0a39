package problem_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

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
