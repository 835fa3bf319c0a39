package hostfn

import (
	"errors"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/internal/contract"
)

// Mutation holds the changes to a request, with the sealed values put in. It must not be logged.
type Mutation struct {
	Headers []abi.Pair
	// Query is the text to append to the raw query.
	Query string
	// Cookies are put into the Cookie header. Each replaces the cookies of the same name.
	Cookies []abi.Pair
	// Path holds placeholders, and the percent-encoded texts that replace them in the path.
	Path []abi.Pair
	// Form is the text to append to the body, which is a form.
	Form string
	// Pass is set if the request is not to be sent again.
	Pass bool
	// SealedName is set if there is one header, and its name contains a sealed value.
	SealedName bool

	// parameters holds the parameters of Query.
	parameters []abi.Pair
	// credentials holds the names and values in parameters that contain sealed values.
	credentials []string
	// openedTexts holds the names and values of headers and parameters that contain sealed values, and these values.
	openedTexts []string
}

// Echoed reports whether address, a URL from the API, contains a credential of the query, plain or encoded. It ignores
// credentials shorter than leakscan.MinText, which also occur by chance.
func (m *Mutation) Echoed(address string) bool {
	texts := []string{address}
	for _, unescape := range []func(string) (string, error){url.QueryUnescape, url.PathUnescape} {
		text, err := unescape(address)
		for range 3 { // a parameter may itself be a URL, such as the one to which a login page sends the client back
			if err != nil {
				break
			}
			texts = append(texts, text)
			text, err = unescape(text)
		}
	}
	for _, credential := range m.credentials {
		for _, form := range appendForms(nil, credential, math.MaxInt) {
			if len(form) >= leakscan.MinText && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, form) }) {
				return true
			}
		}
	}
	return false
}

// Without returns a raw query without the parameters of m, and without other parameters whose value is a credential of m.
func (m *Mutation) Without(query string) string {
	var rest []string
	for parameter := range strings.SplitSeq(query, "&") {
		if !m.hasParameter(parameter) {
			rest = append(rest, parameter)
		}
	}
	return strings.Join(rest, "&")
}

func (m *Mutation) hasParameter(parameter string) bool {
	escapedName, escapedValue, _ := strings.Cut(parameter, "=")
	name, err := url.QueryUnescape(escapedName)
	if err != nil {
		return false
	}
	value, err := url.QueryUnescape(escapedValue)
	if err != nil {
		return false
	}
	return slices.Contains(m.parameters, abi.Pair{Name: name, Value: value}) ||
		len(value) >= leakscan.MinText && slices.Contains(m.credentials, value)
}

// recordOpened adds the texts of a header or parameter that came from sealed values to m.opened, and the cache entries
// that these came from to c.usedOrigins. pair is the pair with references.
func (c *Call) recordOpened(m *Mutation, pair abi.Pair, name, value string) {
	for _, text := range [...][2]string{{pair.Name, name}, {pair.Value, value}} {
		if text[0] == text[1] {
			continue // without a sealed value
		}
		m.openedTexts = append(slices.Grow(m.openedTexts, 2), text[1])
		for v := range c.sealed.In(text[0]) {
			c.usedOrigins = c.usedOrigins.And(v.From)
			m.openedTexts = append(m.openedTexts, v.Text)
		}
	}
}

// Credentials returns the secret texts that a mutation of the call brings into its request. These are the names and
// values that contain sealed values, the sealed values themselves, the parts of header values (see leakscan.Parts), the
// connector's secrets that occur in any of these, and the decoded forms of all of them (see leakscan.Decoded). Texts may be
// parts of others, and may be short.
func (c *Call) Credentials(m *Mutation) []string {
	all := slices.Clone(m.openedTexts)
	for _, header := range m.Headers {
		if !c.hasSecret(m, header.Value) {
			continue
		}
		all = append(all, leakscan.Parts(header.Value)...)
	}
	for _, pair := range slices.Concat(m.parameters, m.Cookies, m.Path) {
		if c.hasSecret(m, pair.Value) {
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

// hasSecret reports whether a text of the mutation contains secrets: sealed values that were put in, or revealed ones,
// which the guest puts in itself and may have encoded.
func (c *Call) hasSecret(m *Mutation, text string) bool {
	return slices.Contains(m.openedTexts, text) ||
		c.revealed && slices.ContainsFunc(leakscan.Decoded([]string{text}), func(text string) bool { return c.Scrub(text) != text })
}

// Texts returns the texts that a mutation of the call brings into its request, and their credentials.
func (c *Call) Texts(m *Mutation) []string {
	texts := append(c.Credentials(m), m.Query, m.Form)
	for _, pair := range slices.Concat(m.Headers, m.Cookies, m.Path) {
		texts = append(texts, pair.Value)
	}
	return texts
}

// Reveal returns the bytes of a sealed value. It needs the grant reveal: the operator trusts the guest with them.
func (c *Call) Reveal(value string) []byte {
	c.requireGroup(contract.UserReveal)
	c.requireGrant(contract.UserReveal, abi.GrantReveal)
	if c.plan.Names.UserToken() {
		c.endf(StagePlugin, "reveal was called, but the configuration names user.token, which no plugin gets in plain")
	}
	v, sealed := c.concat("the value of reveal", value)
	if !sealed {
		c.end(StagePlugin, errors.New("reveal was called for a text that holds no sealed value"))
	}
	c.revealed = true
	c.usedOrigins = c.usedOrigins.And(v.From) // the guest may put the bytes in without a reference
	if c.plan.Revealed != nil {
		c.plan.Revealed(v.Text)
	}
	return []byte(v.Text)
}
