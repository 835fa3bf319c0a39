package sdk

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// foldsTo agrees with strings.EqualFold, which readers of JSON that ignore case use, such as encoding/json (threats.md 67).
func TestNamesFoldAsReadersFoldThem(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) { // few of them fold to another rune
		if r > unicode.MaxASCII && unicode.SimpleFold(r) == r {
			continue
		}
		for _, lower := range "abcdefghijklmnopqrstuvwxyz0_" {
			if got, want := foldsTo(string(r), string(lower)), strings.EqualFold(string(r), string(lower)); got != want {
				t.Fatalf("foldsTo(%q, %q) = %t", r, lower, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		lower := rapid.StringMatching(`[a-z0-9_]{0,5}`).Draw(t, "lower")
		name := rapid.StringMatching(`[a-zA-Zſ\x{212a}0-9_é]{0,6}`).Draw(t, "name")
		if got, want := foldsTo(name, lower), strings.EqualFold(name, lower); got != want {
			t.Fatalf("foldsTo(%q, %q) = %t", name, lower, got)
		}
	})
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]bool{
		"Bearer": true, "GenieKey": true, "a": true, "Z": true, "0-!#$%&'*+.^_`|~9": true,
		"": false, "a b": false, "a=": false, "a:": false, "a,": false, "a\n": false, "\"a\"": false, "é": false, "a/b": false, "[a]": false, "@": false, "{": false,
	} {
		if IsToken(text) != want {
			t.Errorf("%q is a token: %t", text, !want)
		}
	}
}
