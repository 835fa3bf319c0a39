package conform

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// The checks find values for fields with rules: numbers in the range, and texts and secrets that match the pattern.
func TestSample(t *testing.T) {
	for _, pattern := range []string{
		`[a-z]{2}-[a-z]+-\d`, `(?:arn:aws[a-z-]*:iam::\d{12}:role/[^\n]+)`, `[^/ \t]+`, `AKIA[A-Z0-9]{16}`, `(?:[a-z]+\.)+(com|org)`, `a?b*c{0}|d`, `[^\x00-\x7f]`, `x{3,}`,
		`[ -\/]{40}`, ``,
	} {
		whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		for range 50 {
			if text := sample(pattern); !whole.MatchString(text) {
				t.Fatalf("%q does not match %s", text, pattern)
			}
		}
	}
	if text := sample(`a[^\d\D]?b`); text != "ab" {
		t.Errorf("a class without characters has %q", text)
	}
	if one, other := sample(`[a-z]+`), sample(`[a-z]+`); len(one) != 24 || one == other {
		t.Errorf("the secrets %q and %q could be guessed", one, other)
	}
	number := func(n int64) *int64 { return &n }
	for want, f := range map[string]abi.Field{
		"[3600 1 0]":  {},
		"[3600 1]":    {Minimum: number(1)},
		"[900 1]":     {Minimum: number(1), Maximum: number(900)},
		"[7200]":      {Minimum: number(7200)},
		"[-5]":        {Maximum: number(-5)},
		"[3600 2000]": {Minimum: number(2000)},
	} {
		if got := fmt.Sprint(integers(&f)); got != want {
			t.Errorf("%+v: got %s, want %s", f, got, want)
		}
	}
}

// A configuration has values that match, a value that is usual before one that is made up, and so have its secrets.
func TestPatterns(t *testing.T) {
	c := &conformer{ctx: context.Background(), secrets: map[string]string{}}
	c.info = host.PluginInfo{Description: abi.Description{Fields: []abi.Field{
		{Name: "region", Kind: abi.KindString, Pattern: `[a-z]+`, Suggested: []string{"A"}, PatternMessage: "m"},
		{Name: "account", Kind: abi.KindString, Pattern: `\d{12}`, PatternMessage: "m"},
		{Name: "pin", Kind: abi.KindString, Sealed: true, Pattern: `[0-9a-f]{32}`, PatternMessage: "m"},
	}}}
	m := &maker{trial: &trial{c: c}, examples: map[string][]any{}}
	if got := m.candidates(&c.info.Fields[0], nil); fmt.Sprint(got[0]) != "example" {
		t.Errorf("the region is one of %v", got)
	}
	if got := m.candidates(&c.info.Fields[1], nil); len(got) != 1 || !regexp.MustCompile(`^\d{12}$`).MatchString(fmt.Sprint(got[0])) {
		t.Errorf("the account is one of %v", got)
	}
	if c.secretOf(&c.info.Fields[2], "pin"); !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(c.secrets["pin"]) {
		t.Errorf("the secret is %s", c.secrets["pin"])
	}
}
