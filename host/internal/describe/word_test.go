package describe

import "testing"

// A pattern is one of words if each of its texts has at most 64 ASCII letters, digits and hyphens (threats.md 471).
func TestPatternOfWords(t *testing.T) {
	for pattern, want := range map[string]bool{
		"[0-9a-f-]{36}": true, "[0-9A-Za-z-]{64}": true, "[0-9A-Za-z-]{1,64}": true, "(?:a|b-c){16}": true, `\d{6}`: true, "A?(B|C{2})D": true,
		"a{0}": true, "-": true, "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": true, "(a{8}){8}": true,
		"[0-9A-Za-z-]{65}": false, "[0-9]{1,65}": false, "[0-9]+": false, "[0-9]*": false, "[0-9]{3,}": false, "(a{8}){9}": false, "a{64}b?": false,
		`\w{8}`: false, "[0-9_]{8}": false, "[^a]": false, `a\.b`: false, "a b": false, `"`: false, "[0-9A-z]{4}": false, `\D`: false, `\x00`: false, "é": false,
		"a|b{65}": false, "a|[.]": false, "(a{64}){64}": false, "[!-~]{36}": false, "[,-.]": false, `[\t-]`: false,
	} {
		if got := areWords(pattern); got != want {
			t.Errorf("areWords(%s) = %t, want %t", pattern, got, want)
		}
	}
}
