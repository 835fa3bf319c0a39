package hostfn

import (
	"slices"
	"strings"

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
// values that contain sealed values, the sealed values themselves, the parts of header values (see leakscan.Parts), the
// connector's secrets that occur in any of these, and the decoded forms of all of them (see leakscan.Decoded). Texts may be
// parts of others, and may be short.
func (c *Call) Credentials(m *Mutation) []string {
	all := slices.Clone(m.opened)
	for _, header := range m.Headers {
		if !c.holds(m, header.Value) {
			continue
		}
		all = append(all, leakscan.Parts(header.Value)...)
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
	all = leakscan.Decoded(all)
	for i, secret := range c.inputs.secrets() {
		if i < len(c.inputs.Secrets) {
			if _, ofField := c.plan.SecretSinks[c.plan.Names.Secrets[i]]; !ofField {
				continue // no field names it, so nothing of it is in the mutation
			}
		}
		found := slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, secret) })
		if found || leakscan.New([]string{secret}).Holds(strings.Join(all, "\n")) { // for example encoded by a template
			all = append(all, leakscan.Decoded([]string{secret})...)
		}
	}
	for i, text := range all {
		all[i] = strings.TrimSpace(text) // net/http trims the values of headers
	}
	return all
}

// holds reports whether a text of the mutation contains secrets: sealed values that were put in, or revealed ones,
// which the guest puts in itself and may have encoded.
func (c *Call) holds(m *Mutation, text string) bool {
	return slices.Contains(m.opened, text) ||
		c.revealed && slices.ContainsFunc(leakscan.Decoded([]string{text}), func(text string) bool { return c.Scrub(text) != text })
}
