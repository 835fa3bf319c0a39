package compose

import (
	"cmp"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/urlpath"
)

// Format is a format of encode and decode.
type Format struct {
	Encode func(text string) string
	// Decode returns the bytes of a text without padding. It is nil if decode does not know the format.
	Decode func(text string) ([]byte, error)
	// Size returns the maximum length of n bytes in the format.
	Size func(n int) int
	// Raw is set if bytes stay in the format as they are, so that raw bytes are still raw.
	Raw bool
}

// Formats are the formats of encode and decode, by name.
var Formats = map[string]Format{
	contract.FormatBase64:          base64Format(base64.StdEncoding, base64.RawStdEncoding),
	contract.FormatBase64URL:       base64Format(base64.RawURLEncoding, base64.RawURLEncoding),
	contract.FormatBase64URLPadded: base64Format(base64.URLEncoding, nil),
	contract.FormatBase32: {
		func(text string) string { return base32.StdEncoding.EncodeToString([]byte(text)) },
		func(text string) ([]byte, error) {
			return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(text))
		},
		base32.StdEncoding.EncodedLen, false,
	},
	contract.FormatHex:      {func(text string) string { return hex.EncodeToString([]byte(text)) }, hex.DecodeString, hex.EncodedLen, false},
	contract.FormatHexUpper: {func(text string) string { return strings.ToUpper(hex.EncodeToString([]byte(text))) }, nil, hex.EncodedLen, false},
	contract.FormatPercent:  canonical(urlpath.Percent, 3, false),
	contract.FormatForm:     canonical(url.QueryEscape, 3, false),
	contract.FormatQuoted: {
		func(text string) string { return `"` + quotedPairs.Replace(text) + `"` }, nil, func(n int) int { return 2*n + len(`""`) }, true,
	},

	contract.FormatLower:          canonical(func(text string) string { return cased(text, 'A', 'Z') }, 1, true),
	contract.FormatUpper:          canonical(func(text string) string { return cased(text, 'a', 'z') }, 1, true),
	contract.FormatPathNormalized: canonical(pathNormalized, 1, true),
	contract.FormatPathPercent:    canonical(pathPercent, 3, false),
	contract.FormatPathReencoded:  canonical(pathReencoded, 3, false),
	contract.FormatQuerySorted:    canonical(querySorted, 4, false),
	contract.FormatQueryJoined:    canonical(queryJoined, 4, false),
	contract.FormatQueryLines:     canonical(queryLines, 3, false),
	contract.FormatNonzero:        canonical(nonzero, 1, true),
}

var quotedPairs = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func base64Format(encode, decode *base64.Encoding) Format {
	e := Format{Encode: func(text string) string { return encode.EncodeToString([]byte(text)) }, Size: encode.EncodedLen}
	if decode != nil {
		e.Decode = decode.DecodeString
	}
	return e
}

// canonical returns a format whose result has at most times the bytes of its text. It has one byte if a path is empty, but no
// sealed text counts as empty.
func canonical(encode func(string) string, times int, raw bool) Format {
	return Format{encode, nil, func(n int) int { return times * n }, raw}
}

// formDecode returns a name or a value of a form or a query decoded. A % that begins no escape stays as it is.
func formDecode(text string) string {
	if !strings.ContainsAny(text, "+%") {
		return text
	}
	return urlpath.Decode(strings.ReplaceAll(text, "+", " "))
}

// queryParam returns a decoded text of a query as RFC 9421 section 2.2.8 writes it: encoded as in a form, with %20 for a space.
func queryParam(text string) string {
	return urlpath.Escape(text, func(c byte) bool { return urlpath.LetterOrDigit(c) || c == '*' || c == '-' || c == '.' || c == '_' })
}

// pathNormalized returns a path without its dot segments (RFC 3986 section 5.2.4), and without empty segments but the last.
func pathNormalized(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") && path != "" {
		return path
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	out := segments[:0]
	for i, s := range segments {
		switch {
		case s == "..":
			out = out[:max(0, len(out)-1)]
		case s == "." || s == "" && i < len(segments)-1:
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// pathPercent returns a path with all but unreserved characters and slashes percent-encoded.
func pathPercent(path string) string {
	return urlpath.Escape(path, func(c byte) bool { return c == '/' || urlpath.Unreserved(c) })
}

// pathReencoded returns a path that is decoded and percent-encoded anew. A %2F becomes a slash, as stores with the API of S3 sign it: they
// encode the key of the object that a request names.
func pathReencoded(path string) string { return pathPercent(urlpath.Decode(path)) }

// parameters returns the decoded parameters of a query, sorted by what encode makes of their names, and then of their values.
func parameters(query string, encode func(string) string) []abi.Pair {
	var list []abi.Pair
	for p := range strings.SplitSeq(query, "&") {
		if p != "" {
			name, value, _ := strings.Cut(p, "=")
			list = append(list, abi.Pair{Name: encode(formDecode(name)), Value: encode(formDecode(value))})
		}
	}
	slices.SortFunc(list, func(a, b abi.Pair) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return list
}

// querySorted returns a query with its names and values decoded and percent-encoded anew, sorted by name and then by value.
func querySorted(query string) string { return joinParameters(parameters(query, urlpath.Percent)) }

// queryJoined returns a query like querySorted, with one parameter for each name, whose values are joined by commas, as Atlassian's
// query string hash has them.
func queryJoined(query string) string {
	return joinParameters(mergePairs(parameters(query, urlpath.Percent)))
}

func joinParameters(list []abi.Pair) string {
	members := make([]string, len(list))
	for i, p := range list {
		members[i] = p.Name + "=" + p.Value
	}
	return strings.Join(members, "&")
}

// queryLines returns the names of a query in lower case with their values as lines, as Azure Storage's canonicalized resource has
// them. Each begins with a line break.
func queryLines(query string) string {
	list := parameters(query, func(text string) string { return text })
	for i := range list {
		list[i].Name = strings.ToLower(list[i].Name)
	}
	slices.SortStableFunc(list, func(a, b abi.Pair) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, p := range mergePairs(list) {
		b.WriteString("\n" + p.Name + ":" + p.Value)
	}
	return b.String()
}

// nonzero returns a number, or nothing for 0.
func nonzero(text string) string {
	if text == "0" {
		return ""
	}
	return text
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
