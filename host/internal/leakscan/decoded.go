package leakscan

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// maxDecodings is the maximum number of nested encodings that Decoded undoes. It also bounds the work.
const maxDecodings = 3

// Decoded returns texts and the texts that an API may read when it decodes them: from percent-encoding, Base64 or hex,
// and the password of user:password. A server that quotes a credential may quote it decoded.
func Decoded(texts []string) []string {
	all := slices.Clone(texts)
	begin := 0
	for range maxDecodings {
		end := len(all)
		for _, text := range all[begin:end] {
			for _, decoded := range decodings(text) {
				if !slices.Contains(all, decoded) {
					all = append(all, decoded)
				}
			}
		}
		begin = end
	}
	return all
}

func decodings(text string) (all []string) {
	if strings.Contains(text, "%") {
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if decoded, err := decode(text); err == nil {
				all = append(all, decoded)
			}
		}
	}
	packed, ok := basic(text)
	if !ok || !IsText(packed) {
		decoded, err := hex.DecodeString(text)
		if packed = string(decoded); err != nil || !IsText(packed) {
			return all
		}
	}
	all = append(all, packed)
	if _, password, found := strings.Cut(packed, ":"); found {
		all = append(all, password)
	}
	return all
}

// IsText reports whether text is UTF-8 without control characters. If a decoded text is not, it was not encoded at
// all, or is a binary key, which no server quotes.
func IsText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// basic decodes Base64, as in the credentials of Basic (RFC 7617 section 2), in the standard or the URL alphabet.
func basic(text string) (pair string, ok bool) {
	text = strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if decoded, err := encoding.DecodeString(text); err == nil {
			return string(decoded), true
		}
	}
	return "", false
}

// Parts returns value, the value of a header with a credential, and the parts of it that are credentials by themselves:
// the text after an authentication scheme (RFC 9110 section 11.4), and for Basic the user and password, and the
// password (RFC 7617).
func Parts(value string) []string {
	all := []string{value}
	scheme, rest, found := strings.Cut(strings.TrimSpace(value), " ")
	if !found || !httpguts.ValidHeaderFieldName(scheme) {
		return all
	}
	rest = strings.TrimSpace(rest)
	all = append(all, rest)
	if strings.EqualFold(scheme, "Basic") {
		if pair, ok := basic(rest); ok {
			_, password, _ := strings.Cut(pair, ":")
			all = append(all, pair, password)
		}
	}
	return all
}
