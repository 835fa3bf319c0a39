// Package urlpath keeps paths that callers choose below a URL that they do not choose.
package urlpath

import (
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Join returns the URL of a path below a connector's base URL. The path may begin with a slash or not, and may have a
// query. Whatever it holds, the URL has the base's scheme and host, and is not above the base's path: what a server on the
// way could take for a step upwards is refused, also when it is percent-encoded once or more often. An empty path is the
// base itself.
func Join(base *url.URL, path string) (*url.URL, error) {
	if err := checkCharacters(path); err != nil {
		return nil, err
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if err := Check(path); err != nil {
		return nil, err
	}
	joined := *base
	whole := base.EscapedPath()
	if path != "" {
		whole = strings.TrimSuffix(whole, "/") + "/" + Encode(strings.TrimPrefix(path, "/"))
	}
	decoded, err := url.PathUnescape(whole)
	if err != nil {
		return nil, errors.New("the path has a % that no two hexadecimal digits follow: write %25")
	}
	joined.Path, joined.RawPath = decoded, whole
	joined.RawQuery, joined.ForceQuery = encode(query, ascii), hasQuery && query == ""
	joined.Fragment, joined.RawFragment, joined.User, joined.Opaque = "", "", nil, ""
	return &joined, nil
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

// Decodings is how often a path may be encoded. To go through more of them takes seconds.
const Decodings = 8

// lookalikes are characters that stand for a dot, a slash, a backslash, a % or a ; to a server that normalizes
// Unicode (NFKC, or as names of hosts are), or that converts it to a character set without them.
var lookalikes = strings.NewReplacer(
	"\uff0e", ".", "\u3002", ".", "\uff61", ".", "\u2024", ".", "\ufe52", ".", "\u2025", "..", "\ufe30", "..",
	"\uff0f", "/", "\u2044", "/", "\u2215", "/",
	"\uff3c", `\`, "\ufe68", `\`, "\u2216", `\`,
	"\uff05", "%", "\ufe6a", "%",
	"\u037e", ";", "\uff1b", ";", "\ufe54", ";", "\ufe14", ";",
)

// visible drops a character that names of hosts are written without, such as a soft hyphen, and makes a space of one that NFKC
// makes one of.
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

// Check refuses paths that some server takes for one above.
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
			// Some servers cut parameters off before they look for dots, and some the spaces that a name ends with.
			segment, _, _ = strings.Cut(segment, ";")
			if segment = strings.Trim(segment, " "); segment == "." || segment == ".." {
				return errors.New("the path has a segment . or .., which would leave the connector's url")
			}
		}
		for _, r := range path {
			if r < ' ' || r == 0x7f {
				return errors.New("the path has a control character, percent-encoded")
			}
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

// Decode decodes what is percent-encoded once, as servers do that leave a % which no two hexadecimal digits follow as it is.
func Decode(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		c, err := hex.DecodeString(rest[:min(2, len(rest))])
		if err != nil || len(c) == 0 {
			b.WriteByte('%')
			text = rest
			continue
		}
		b.Write(c)
		text = rest[2:]
	}
}

// overlong reports whether a text has a character in more bytes than it takes, which RFC 3629 section 3 forbids:
// lenient decoders take C0 AE for a dot, and C0 AF for a slash.
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

// encode percent-encodes the bytes that may not stand as they are, and leaves the rest as it is.
func encode(text string, allowed func(byte) bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(text) {
		if allowed(c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

// Encode percent-encodes what may not stand in a path, and leaves the rest as it is, percent signs included.
func Encode(path string) string { return encode(path, pathCharacter) }

func ascii(c byte) bool { return c < 0x80 }

// pathCharacter reports what RFC 3986 section 3.3 lets stand in a path, percent signs included.
func pathCharacter(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0
}
