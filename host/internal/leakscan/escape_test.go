package leakscan

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"
)

func TestLimitsOfEscapes(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		found            bool
	}{
		{"seven backslashes", "the-token", `the\\\\\\\u002dtoken`, true},
		{"eight backslashes", "the-token", `the\\\\\\\\u002dtoken`, false},
		{"encoded four times", "the-token", "the%2525252dtoken", true},
		{"encoded five times", "the-token", "the%252525252dtoken", false},
		{"HTML, encoded four times", "the-token", "the&amp;amp;amp;#45;token", true},
		{"HTML, encoded five times", "the-token", "the&amp;amp;amp;amp;#45;token", false},
		{"eight digits in HTML", "the-token", "the&#00000045;token", true},
		{"nine digits in HTML", "the-token", "the&#000000045;token", false},
		{"eight digits and another one", "the-J7-token", "the-&#000000747-token", false},
		{"eight digits in braces", "the-token", `the\u{0000002d}token`, true},
		{"nine digits in braces", "the-token", `the\u{00000002d}token`, false},
		{"no digits in braces", "the-\x00-token", `the-\u{}-token`, false},
		{"a letter that needs no backslash", "the-token", `the-to\ken`, false},
		{"DEL after a backslash", "the-\x7f-token", "the-\\\x7f-token", false},
		{"no hexadecimal digit", "the-\x01-token", "the-%0z-token", false},
		{"one hexadecimal digit", "the-P-token", "the-%4z-token", false},
		{"beyond Latin-1", "the-\x00-token", `the-\u0100-token`, false},
		{"beyond Unicode", "the-\ufffd-token", "the-&#1114112;-token", false},
		{"beyond Unicode, in braces", "the-\ufffd-token", `the-\u{110000}-token`, false},
		{"32 bits", "the-\xff-token", `the-\u{ffffffff}-token`, false},
		{"half of a surrogate pair", "the-\ufffd-token", `the-\u{d83d}-token`, false},
	} {
		if f := New([]string{c.text}); f.Holds("is "+c.body) != c.found {
			t.Errorf("%s: %q is found in %s: %t", c.name, c.text, c.body, !c.found)
		}
	}
}

// The first escape of a text may be at any offset, also if an answer begins with the text.
func TestFirstEscapeAtEachOffset_threats_45(t *testing.T) {
	const text = "the-token-is_longer.than<the>window+of/32/bytes"
	f := New([]string{text})
	for _, format := range []string{"%%%02x", `\u%04x`, "&#%d;", "&amp;#x%x;", "&amp;amp;#%d;"} {
		for i := range len(text) {
			for _, before := range []string{"", "x", "is "} {
				if body := before + text[:i] + fmt.Sprintf(format, text[i]) + text[i+1:]; !f.Holds(body) {
					t.Errorf("it is not found in %s", body)
				}
			}
		}
	}
	if body := strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text); !f.Holds(body) {
		t.Errorf("it is not found in %s", body)
	}
}

func TestControlCharacters_threats_45(t *testing.T) {
	f := New([]string{"a\bc\fd\ne\rf\tg\v8h"})
	for _, form := range []string{`a\bc\fd\ne\rf\tg\v8h`, `a\10c\14d\12e\15f\11g\138h`, `a\u0008c\u000cd\u000Ae\u000df\u0009g\u000b8h`, "a%08c%0Cd%0ae%0df%09g%0b8h"} {
		expectStopped(t, f, &chunks{rest: strings.Split("x"+form, ""), end: io.EOF}, "x", form)
	}
	if form := each(`%c\0`)("the-token"); !New([]string{"the-token"}).Holds(form) {
		t.Errorf("it is not found in %s", form)
	}
}

// Each character is found at the boundaries of Latin-1, UTF-8 and UTF-16, as characters and as bytes. threats.md 45
func TestBoundariesOfCharacterSets_threats_45(t *testing.T) {
	const text = "p😀ä\x7f\u0080\u00ff\u0100\uffff\U00010000\U0010ffff-word"
	characters := func(format string) string {
		var b strings.Builder
		for _, r := range text {
			fmt.Fprintf(&b, format, r)
		}
		return b.String()
	}
	var units strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&units, `\u%04x`, unit)
	}
	f := New([]string{text})
	for name, form := range map[string]string{
		"as it is": text, "JSON": units.String(), "braces": characters(`\u{%x}`), "HTML": characters("&#%d;"), "HTML, hexadecimal": characters("&#x%X;"),
		"percent": each("%%%02X")(text), "bytes in octal": each(`\%03o`)(text), "bytes in hexadecimal": each(`\x%02x`)(text), "read as Latin-1": each(`\u%04x`)(text),
		"only one escape": "p" + `\ud83d\ude00` + text[len("p😀"):],
	} {
		t.Run(name, func(t *testing.T) {
			expectStopped(t, f, &chunks{rest: strings.Split("x"+form, ""), end: io.EOF}, "x", form)
		})
	}
}

// Texts with a common beginning are told apart, and one may be the beginning of another's Base64.
func TestSharedPatterns(t *testing.T) {
	f := New([]string{"the-token-1abcd", "the-token-2abcx"})
	if f.Holds("the-token-1abcx") || !f.Holds("the-token-1abcd") || !f.Holds("the-token-2abcx") {
		t.Error("the texts are taken for each other")
	}
	const text = "the secret of the plugin"
	encoded := inBase64(text)
	body := strings.Repeat("A", 40) + encoded[:4] + "\n" + encoded[4:]
	for _, texts := range [][]string{{text, encoded}, {encoded, text}, {text, encoded[:12]}, {encoded[:12], text}} {
		if !New(texts).Holds(body) {
			t.Errorf("of %q none is found in %q", texts, body)
		}
	}
}
