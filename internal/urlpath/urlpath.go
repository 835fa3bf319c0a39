// Package urlpath joins base URLs with paths from untrusted callers. The result never leaves the base URL.
package urlpath

import (
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Join returns the URL of a path below a connector's base URL. The path may begin with a slash and may have a query. For an
// empty path, Join returns the base.
//
// For any path, the URL has the base's scheme and host, and its path is not above the base's path. Join refuses a path that
// some server could resolve to one above, also if it is percent-encoded several times.
func Join(base *url.URL, path string) (*url.URL, error) {
	if err := checkCharacters(path); err != nil {
		return nil, err
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if err := Check(path); err != nil {
		return nil, err
	}
	result := *base
	fullPath := base.EscapedPath()
	if path != "" {
		fullPath = strings.TrimSuffix(fullPath, "/") + "/" + Encode(strings.TrimPrefix(path, "/"))
	}
	decoded, err := url.PathUnescape(fullPath)
	if err != nil {
		return nil, errors.New("the path has a % that no two hexadecimal digits follow: write %25")
	}
	result.Path, result.RawPath = decoded, fullPath
	result.RawQuery, result.ForceQuery = Escape(query, ascii), hasQuery && query == ""
	result.Fragment, result.RawFragment, result.User, result.Opaque = "", "", nil, ""
	return &result, nil
}

func checkCharacters(path string) error {
	for _, r := range path {
		switch {
		case r < ' ' || r == 0x7f:
			return errors.New("the path has a control character")
		case r == ' ':
			return errors.New("the path has a space: write %20")
		case r == '\\':
			return errors.New(`the path has a \: write / or %5C`)
		case r == '#':
			return errors.New("the path has a fragment, which is never sent: write %23 for a #")
		}
	}
	if scheme, _, ok := strings.Cut(path, "://"); ok && !strings.ContainsAny(scheme, "/?") {
		return errors.New("the path is a whole URL: give only what comes after the connector's url")
	}
	if strings.HasPrefix(path, "//") {
		return errors.New("the path begins with //, which means another host")
	}
	return nil
}

// Decodings is the maximum number of times that a path may be percent-encoded. Decoding longer chains would take seconds.
const Decodings = 8

// lookalikes replaces the characters that can become a dot, a slash, a backslash, a % or a ; in a server that normalizes
// Unicode (NFKC, or as in host names) or converts it to a smaller character set.
var lookalikes = strings.NewReplacer(
	"\uff0e", ".", "\u3002", ".", "\uff61", ".", "\u2024", ".", "\ufe52", ".", "\u2025", "..", "\ufe30", "..",
	"\uff0f", "/", "\u2044", "/", "\u2215", "/",
	"\uff3c", `\`, "\ufe68", `\`, "\u2216", `\`,
	"\uff05", "%", "\ufe6a", "%",
	"\u037e", ";", "\uff1b", ";", "\ufe54", ";", "\ufe14", ";",
)

// visible is a mapping for strings.Map. It drops characters that are ignored in host names, such as a soft hyphen, and maps
// characters to a space that NFKC maps to one.
func visible(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return -1
	case unicode.Is(unicode.Zs, r):
		return ' '
	}
	return r
}

// Check returns an error if some server could resolve a path to one above its start.
func Check(path string) error {
	for decodings := 0; ; decodings++ {
		if _, err := url.PathUnescape(path); err != nil && decodings == 0 {
			return errors.New("the path has a % that no two hexadecimal digits follow: write %25")
		}
		if overlong(path) {
			return errors.New("the path has a character in more bytes than UTF-8 has for it")
		}
		path = lookalikes.Replace(path)
		for segment := range strings.FieldsFuncSeq(strings.Map(visible, path), func(r rune) bool { return r == '/' || r == '\\' }) {
			// Some servers remove parameters before they look for dots, and some remove spaces at the end of a name.
			segment, _, _ = strings.Cut(segment, ";")
			if segment = strings.Trim(segment, " "); segment == "." || segment == ".." {
				return errors.New("the path has a segment . or .., which would leave the connector's url")
			}
		}
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("the path has a control character, percent-encoded")
		}
		decoded := Decode(path)
		switch {
		case decoded == path:
			return nil
		case decodings == Decodings:
			return errors.New("the path is percent-encoded over and over")
		}
		path = decoded
	}
}

// overlong reports whether a text encodes a character in more bytes than necessary, which RFC 3629 section 3 forbids. Lenient
// decoders take C0 AE for a dot and C0 AF for a slash.
func overlong(text string) bool {
	for i := 1; i < len(text); i++ {
		lead, next := text[i-1], text[i]
		switch {
		case next&0xc0 != 0x80:
		case lead == 0xc0, lead == 0xc1, lead == 0xe0 && next < 0xa0, lead == 0xf0 && next < 0x90, lead == 0xf8 && next < 0x88, lead == 0xfc && next < 0x84:
			return true
		}
	}
	return false
}

// Encode returns a path with every byte percent-encoded that RFC 3986 does not allow in paths. It keeps percent signs, so a
// path that is encoded already stays the same.
func Encode(path string) string { return Escape(path, pathCharacter) }

func ascii(c byte) bool { return c < 0x80 }

// pathCharacter reports whether RFC 3986 section 3.3 allows c in a path. Slashes and percent signs are allowed.
func pathCharacter(c byte) bool {
	return Unreserved(c) || strings.IndexByte("!$&'()*+,;=:@/%", c) >= 0
}

// EndsSegment reports whether a segment of a path, decoded any number of times, has a character that a server may take for its end.
func EndsSegment(segment string) bool {
	return AtSomeDepth(segment, func(s string) bool { return strings.ContainsAny(s, `/\;?#`) || !utf8.ValidString(s) })
}

// AtSomeDepth reports whether test is true for a segment or for a result of decoding it repeatedly. It returns true for a
// segment that is encoded more than Decodings times.
func AtSomeDepth(segment string, test func(string) bool) bool {
	for range Decodings {
		if test(segment) {
			return true
		}
		decoded := Decode(segment)
		if decoded == segment {
			return false
		}
		segment = decoded
	}
	return true
}

var expression = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// Emptied reports whether a segment of a URL is empty that is not in its template, whose scheme and host are literal.
func Emptied(template, text string) bool {
	own, parts := segments(expression.ReplaceAllLiteralString(template, "x")), segments(text)
	if len(own) != len(parts) {
		return false // a value has a slash, which EndsSegment reports
	}
	for i, segment := range parts {
		if segment == "" && own[i] != "" {
			return true
		}
	}
	return false
}

// segments returns the host of a URL and the segments of its path.
func segments(text string) []string {
	text, _, _ = strings.Cut(text, "?")
	_, text, _ = strings.Cut(text, "://")
	return strings.Split(text, "/")
}

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
