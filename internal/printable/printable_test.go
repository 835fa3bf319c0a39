package printable

import (
	"strings"
	"testing"
)

// Text escapes characters that change the order of a line or are invisible, even if the text is otherwise fine
// (threats.md 21).
func TestTextEscapesHiddenCharacters_threats_21(t *testing.T) {
	for _, hidden := range []string{
		"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u200e", "\u200f", "\u061c", // order
		"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\U000e0041", // no width
		"\u2028", "\u2029", "\u0085", "\u007f", "\u009b", "\n", "\x1b", "\x00", // lines and terminals
	} {
		got := Text("paid "+hidden+"100 to bob", 1024)
		if strings.Contains(got, hidden) || !strings.Contains(got, `paid \`) || !strings.HasSuffix(got, "100 to bob") {
			t.Errorf("%+q became %q", hidden, got)
		}
	}
	for text, want := range map[string]string{"1234567": "1234567", "12345678": "12345678", "123456789": "12345678…", "1234567ü": "1234567\ufffd…"} {
		if got := Text(text, 8); got != want {
			t.Errorf("within 8 bytes %q became %q, want %q", text, got, want)
		}
	}
	if text := "Grüße, 世界 ✓ {\"a\": 1}"; Text(text, 1024) != text {
		t.Errorf("%q became %q", text, Text(text, 1024))
	}
}
