package hostfn

import (
	"encoding/base64"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/host/internal/echo"
	"github.com/keywright/keywright/internal/abi"
)

// note remembers what of a header or parameter came from sealed values, and which entries of the cache these came from.
func (c *Call) note(m *Mutation, written abi.Pair, name, value string) {
	for _, text := range [...][2]string{{written.Name, name}, {written.Value, value}} {
		if text[0] == text[1] {
			continue // without a sealed value
		}
		m.opened = append(m.opened, text[1])
		pieces, err := c.sealed.Split(text[0])
		if err != nil {
			continue
		}
		for _, piece := range pieces {
			if !piece.Sealed {
				continue
			}
			c.putIn = c.putIn.And(piece.Value.From)
			if len(pieces) > 1 {
				m.opened = append(m.opened, piece.Value.Text)
			}
		}
	}
}

// Credentials are what a mutation of the call brought into its request: the texts that sealed values were put into, and
// these; their parts; and the connector's secrets, where they are in any of these. Some are part of others, and some may
// be short.
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
	for _, secret := range c.inputs.Secrets {
		found := slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, secret) })
		if found || echo.New([]string{secret}).Holds(strings.Join(all, "\n")) { // as when a template encodes it
			all = append(all, secret)
		}
	}
	for i, text := range all {
		all[i] = strings.TrimSpace(text) // as headers are sent
	}
	return all
}

// Parts are the value of a header that is a credential, and what of it is one by itself: what follows an authentication
// scheme, RFC 9110 section 11.4; of Basic the user and password, and the password, RFC 7617.
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

// holds tells whether sealed values were put into a text of the mutation. A guest that may reveal puts them in itself.
func (c *Call) holds(m *Mutation, text string) bool {
	return slices.Contains(m.opened, text) || c.revealed && c.Scrub(text) != text
}

// basic decodes the credentials of Basic, RFC 7617 section 2.
func basic(text string) (pair string, ok bool) {
	text = strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if decoded, err := encoding.DecodeString(text); err == nil {
			return string(decoded), true
		}
	}
	return "", false
}
