// Package printable makes texts of others safe for logs and errors.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Text returns a text in a form that is safe for logs and errors. The result is valid UTF-8 of bounded length: text is cut
// to limit bytes, and followed by … then. Characters that are not printable are escaped, because control characters could
// forge lines or control a terminal (threats.md 21).
func Text(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
