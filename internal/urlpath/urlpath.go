// Package urlpath keeps paths that callers choose below a URL that they do not choose.
package urlpath

import (
	"errors"
	"net/url"
	"strings"
)

// Join gives the URL of a path below a connector's base URL. The path may begin with a slash or not, and may have a
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
		whole = strings.TrimSuffix(whole, "/") + "/" + encode(strings.TrimPrefix(path, "/"), pathCharacter)
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

// Check refuses paths that some server takes for one above.
func Check(path string) error {
	for decodings := 0; ; decodings++ {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";") // some servers cut parameters off before they look for dots
			if segment == "." || segment == ".." {
				return errors.New("the path has a segment . or .., which would leave the connector's url")
			}
		}
		for _, r := range path {
			if r < ' ' || r == 0x7f {
				return errors.New("the path has a control character, percent-encoded")
			}
		}
		decoded, err := url.PathUnescape(path)
		switch {
		case err != nil && decodings == 0:
			return errors.New("the path has a % that no two hexadecimal digits follow: write %25")
		case err != nil || decoded == path:
			return nil
		}
		path = decoded
	}
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

func ascii(c byte) bool { return c < 0x80 }

// pathCharacter reports what RFC 3986 section 3.3 lets stand in a path, percent signs included.
func pathCharacter(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0
}
