package sdk

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/contract"
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

// literals is an Env with the literal values of fields.
type literals struct {
	contract.Env
	fields map[string]string
}

func (e literals) ConfigGet(name string) (value string, ok bool) {
	value, ok = e.fields[name]
	return value, ok
}

// A name that no request could carry is a problem of its field, or of the object's member. An absent field has no problem.
func TestProblemsOfNames(t *testing.T) {
	c := &Config{literals{fields: map[string]string{
		"key": "X-Key", "host": "Host", "blank": "a b", "slash": "a/b",
		"pairs": `{"a":"1","b":2}`, "list": `{"a":["1"]}`, "headers": `{"X-A":"1","Te":"2","a b":"3"}`,
	}}}
	for name, test := range map[string]struct {
		problems []Problem
		want     string
	}{
		"header":               {c.CheckName("key", "header"), ""},
		"header of the client": {c.CheckName("host", "header"), "host"},
		"header with a space":  {c.CheckName("blank", "header"), "blank"},
		"cookie":               {c.CheckName("host", "cookie"), ""},
		"cookie with a space":  {c.CheckName("blank", "cookie"), "blank"},
		"path":                 {c.CheckName("blank", "path"), ""},
		"path with a slash":    {c.CheckName("slash", "path"), "slash"},
		"query":                {c.CheckName("slash", "query"), ""},
		"absent":               {c.CheckName("other", "header"), ""},
		"pairs":                {c.CheckPairs("pairs", "other"), ""},
		"a list":               {c.CheckPairs("pairs", "list"), "list"},
		"headers":              {c.CheckHeaders("pairs", "headers", "list"), "list headers.Te headers.a b"},
	} {
		var fields []string
		for _, p := range test.problems {
			fields = append(fields, p.Field)
			if p.Message == "" {
				t.Errorf("%s: %s has no message", name, p.Field)
			}
		}
		if got := strings.Join(fields, " "); got != test.want {
			t.Errorf("%s: problems of %q, not of %q", name, got, test.want)
		}
	}
}
