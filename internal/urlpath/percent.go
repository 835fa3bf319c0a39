package urlpath

import (
	"encoding/hex"
	"strings"
)

// Percent returns text percent-encoded (RFC 3986 section 2.1), but for unreserved characters. It encodes a space as %20, which
// all servers understand, and not as the + of forms.
func Percent(text string) string { return Escape(text, Unreserved) }

// Unreserved reports whether a byte is one of the unreserved characters of RFC 3986 section 2.3.
func Unreserved(c byte) bool {
	return LetterOrDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// LetterOrDigit reports whether a byte is a letter or digit of ASCII.
func LetterOrDigit(c byte) bool {
	letter := c | 0x20
	return 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9'
}

// Escape returns text with all bytes percent-encoded but those that plain is true for.
func Escape(text string, plain func(byte) bool) string {
	n := 0
	for n < len(text) && plain(text[n]) {
		n++
	}
	if n == len(text) {
		return text
	}
	const digits = "0123456789ABCDEF"
	b := append(make([]byte, 0, len(text)+16), text[:n]...)
	for ; n < len(text); n++ {
		if c := text[n]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// Decode decodes percent-encoding once. Like lenient servers, it keeps a % that no two hexadecimal digits follow.
func Decode(text string) string {
	n := strings.IndexByte(text, '%')
	if n < 0 {
		return text
	}
	b := append(make([]byte, 0, len(text)), text[:n]...)
	for ; n < len(text); n++ {
		b = append(b, text[n])
		if text[n] == '%' && n+2 < len(text) {
			if _, err := hex.Decode(b[len(b)-1:], []byte(text[n+1:n+3])); err == nil {
				n += 2
			}
		}
	}
	return string(b)
}
