package hostfn

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
)

// This file has the formats of encode that write paths and queries in a canonical form.

// canonical returns an encoding whose result has at most times the bytes of its text. It has one byte if a path is empty, but no
// sealed text counts as empty.
func canonical(encode func(string) string, times int, keeps bool) encoding {
	return encoding{encode, nil, func(n int) int { return times * n }, keeps}
}

// unreserved reports whether a byte is one of the unreserved characters of RFC 3986 section 2.3.
func unreserved(c byte) bool {
	return letterOrDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func letterOrDigit(c byte) bool {
	letter := c | 0x20
	return 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9'
}

// escape returns text with all bytes percent-encoded but those that plain is true for.
func escape(text string, plain func(byte) bool) string {
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

// formDecode returns a name or a value of a form or a query decoded. A % that begins no escape stays as it is.
func formDecode(text string) string {
	if !strings.ContainsAny(text, "+%") {
		return text
	}
	return percentDecode(strings.ReplaceAll(text, "+", " "))
}

// percentDecode returns text with its percent-encoded bytes decoded. A % that begins no escape stays as it is.
func percentDecode(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) {
			if high, low := nibble(text[i+1]), nibble(text[i+2]); high < 16 && low < 16 {
				c = high<<4 | low
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// nibble returns the value of a hexadecimal digit, or 16 for any other byte.
func nibble(c byte) byte {
	switch lower := c | 0x20; {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= lower && lower <= 'f':
		return lower - 'a' + 10
	}
	return 16
}

// queryParam returns a decoded text of a query as RFC 9421 section 2.2.8 writes it: encoded as in a form, with %20 for a space.
func queryParam(text string) string {
	return escape(text, func(c byte) bool { return letterOrDigit(c) || c == '*' || c == '-' || c == '.' || c == '_' })
}

// pathNormalized returns a path without its dot segments (RFC 3986 section 5.2.4), and without empty segments but the last.
func pathNormalized(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") && path != "" {
		return path
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	kept := segments[:0]
	for i, s := range segments {
		switch {
		case s == "..":
			kept = kept[:max(0, len(kept)-1)]
		case s == "." || s == "" && i < len(segments)-1:
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// pathPercent returns a path with all but unreserved characters and slashes percent-encoded.
func pathPercent(path string) string {
	return escape(path, func(c byte) bool { return c == '/' || unreserved(c) })
}

// pathReencoded returns a path that is decoded and percent-encoded anew. A %2F becomes a slash, as stores with the API of S3 sign it: they
// encode the key of the object that a request names.
func pathReencoded(path string) string { return pathPercent(percentDecode(path)) }

// sortWeight is the number of bytes that a byte of a query counts as when it is sorted, because that takes longer than to copy it.
const sortWeight = 16

// querySorted returns a query with its names and values decoded and percent-encoded anew, sorted by name and then by value.
func querySorted(query string) string {
	if query == "" {
		return ""
	}
	var parameters []abi.Pair
	for p := range strings.SplitSeq(query, "&") {
		if p != "" {
			name, value, _ := strings.Cut(p, "=")
			parameters = append(parameters, abi.Pair{Name: escape(formDecode(name), unreserved), Value: escape(formDecode(value), unreserved)})
		}
	}
	slices.SortFunc(parameters, func(a, b abi.Pair) int {
		if order := strings.Compare(a.Name, b.Name); order != 0 {
			return order
		}
		return strings.Compare(a.Value, b.Value)
	})
	var b strings.Builder
	b.Grow(len(query) + len(parameters))
	for i, p := range parameters {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.Name)
		b.WriteByte('=')
		b.WriteString(p.Value)
	}
	return b.String()
}

// cased returns text with the ASCII letters from first to last in the other case.
func cased(text string, first, last byte) string {
	b := []byte(text)
	for i, c := range b {
		if first <= c && c <= last {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}
