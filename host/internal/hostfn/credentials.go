package hostfn

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
)

// recordOpened adds the texts of a header or parameter that came from sealed values to m.opened, and the cache entries
// that these came from to c.putIn. written is the pair with references.
func (c *Call) recordOpened(m *Mutation, written abi.Pair, name, value string) {
	for _, text := range [...][2]string{{written.Name, name}, {written.Value, value}} {
		if text[0] == text[1] {
			continue // without a sealed value
		}
		m.opened = append(slices.Grow(m.opened, 2), text[1])
		for v := range c.sealed.In(text[0]) {
			c.putIn = c.putIn.And(v.From)
			m.opened = append(m.opened, v.Text)
		}
	}
}

// Credentials returns the secret texts that a mutation of the call brings into its request. These are the names and
// values that contain sealed values, the sealed values themselves, the parts of header values (see Parts), the
// connector's secrets that occur in any of these, and the decoded forms of all of them (see Decoded). Texts may be
// parts of others, and may be short.
func (c *Call) Credentials(m *Mutation) []string {
	all := slices.Clone(m.opened)
	for _, header := range m.Headers {
		if !c.holds(m, header.Value) {
			continue
		}
		all = append(all, Parts(header.Value)...)
	}
	for _, parameter := range m.parameters {
		if c.holds(m, parameter.Value) {
			all = append(all, parameter.Value)
		}
	}
	for _, pair := range slices.Concat(m.Cookies, m.Path) {
		if c.holds(m, pair.Value) {
			all = append(all, pair.Value)
		}
	}
	all = Decoded(all)
	for i, secret := range c.inputs.secrets() {
		if i < len(c.inputs.Secrets) {
			if _, ofField := c.plan.SecretSinks[c.plan.Names.Secrets[i]]; !ofField {
				continue // no field names it, so nothing of it is in the mutation
			}
		}
		found := slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, secret) })
		if found || leakscan.New([]string{secret}).Holds(strings.Join(all, "\n")) { // for example encoded by a template
			all = append(all, Decoded([]string{secret})...)
		}
	}
	for i, text := range all {
		all[i] = strings.TrimSpace(text) // net/http trims the values of headers
	}
	return all
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

// holds reports whether a text of the mutation contains secrets: sealed values that were put in, or revealed ones,
// which the guest puts in itself and may have encoded.
func (c *Call) holds(m *Mutation, text string) bool {
	return slices.Contains(m.opened, text) ||
		c.revealed && slices.ContainsFunc(Decoded([]string{text}), func(text string) bool { return c.Scrub(text) != text })
}

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
	if !ok || !printable(packed) {
		decoded, err := hex.DecodeString(text)
		if packed = string(decoded); err != nil || !printable(packed) {
			return all
		}
	}
	all = append(all, packed)
	if _, password, found := strings.Cut(packed, ":"); found {
		all = append(all, password)
	}
	return all
}

// printable reports whether text is UTF-8 without control characters. If a decoded text is not, it was not encoded at
// all, or is a binary key, which no server quotes.
func printable(text string) bool {
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
