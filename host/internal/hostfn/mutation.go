package hostfn

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
	"golang.org/x/net/http/httpguts"
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
	// URL, if not nil, replaces the scheme and the host of the request, and its path stands in front. MaskedURL is for people.
	URL       *url.URL
	MaskedURL string
	// Pass is set if the request is not to be sent again.
	Pass bool
	// SealedName is set if the name of a header contains a sealed value.
	SealedName bool
	// sealedParameter is set if the name of a parameter contains a sealed value.
	sealedParameter bool

	// parameters holds the parameters of Query.
	parameters []abi.Pair
	// credentials holds the names and values in parameters that contain sealed values.
	credentials []string
	// openedTexts holds the names and values of headers and parameters that contain sealed values, and these values.
	openedTexts []string
}

// Mutation decodes the output of authenticate, checks it, and puts the sealed values in. Scrub still works after a failure.
func (c *Call) Mutation(output []byte) (m *Mutation, failure *Failure) {
	failure = c.try(func() { m = c.mutation(output) })
	return m, failure
}

// Masked returns the mutation of a guest's output, which Mutation has accepted, as a person may see it.
func (c *Call) Masked(output []byte) *Mutation {
	var document contract.Mutation
	_ = strictjson.Unmarshal(output, &document) // Mutation has accepted it
	m := &Mutation{
		Pass: document.Pass, Headers: c.maskedPairs(document.Headers), Query: c.maskedParameters(document.Query), Form: c.maskedParameters(document.Form),
		Cookies: c.maskedPairs(document.Cookies), Path: c.maskedPairs(document.Path), MaskedURL: c.masked(document.URL),
	}
	for i := range m.Headers {
		m.Headers[i].Name = http.CanonicalHeaderKey(m.Headers[i].Name)
	}
	return m
}

func (c *Call) mutation(output []byte) *Mutation {
	var document contract.Mutation
	err := strictjson.Decode(output, &document, func(s *strictjson.Simple, name string) (ok bool) {
		switch name {
		case "headers":
			document.Headers, ok = s.Pairs()
		case "query":
			document.Query, ok = s.Pairs()
		}
		return ok
	})
	if err != nil {
		c.endf(StageMutation, "the plugin's output %w", err)
	}
	c.keepPattern(document)
	return c.change(document)
}

// change checks a mutation and puts the sealed values in.
func (c *Call) change(document contract.Mutation) *Mutation {
	total := len(document.Headers) + len(document.Query) + len(document.Cookies) + len(document.Path) + len(document.Form)
	if total > c.plan.Limits.Mutations {
		c.endf(StageMutation, "the mutation has %d headers, query parameters and other parts, over the limit of %d", total, c.plan.Limits.Mutations)
	}
	if document.Pass {
		if c.inputs.Answer == nil && !c.answerMadeUp() || total > 0 {
			c.endf(StageMutation, "the mutation passes the API's answer on, which only a call after such an answer may, and without other changes")
		}
		return &Mutation{Pass: true}
	}
	m := &Mutation{Headers: make([]abi.Pair, 0, len(document.Headers))}
	c.openedValues = 0 // do not count the values that went into token requests
	for _, pair := range document.Headers {
		name, value, label := c.header("the mutation's headers", pair, seal.Header)
		if label.sealed && len(document.Headers) > 1 {
			c.endf(StageMutation, "the mutation's headers: there are several, and the name of one is sealed: %s", aloneWhenSealed)
		}
		if slices.ContainsFunc(m.Headers, func(p abi.Pair) bool { return strings.EqualFold(p.Name, name) }) {
			c.endf(StageMutation, "the mutation sets header %s twice", label)
		}
		m.Headers = append(m.Headers, abi.Pair{Name: http.CanonicalHeaderKey(name), Value: value})
		m.SealedName = label.sealed
		c.recordOpened(m, pair, name, value)
	}
	m.Query = c.parameters(m, "the mutation's query", document.Query, seal.Query, urlpath.Percent)
	m.Form = c.parameters(m, "the mutation's form", document.Form, seal.Body, url.QueryEscape)
	c.cookies(m, document.Cookies)
	c.path(m, document.Path)
	if c.openedValues == 0 && !c.revealed && !c.plan.Anonymous {
		c.end(StageMutation, errors.New("the mutation holds no credential: no sealed value is put to use in it"))
	}
	m.URL = c.url(document.URL) // last, since it is no credential
	return m
}

// header puts the sealed values into a header that the guest sets, and checks it. label is its name for error messages.
func (c *core) header(where string, pair abi.Pair, sink seal.Sinks) (name, value string, label shownName) {
	c.notRaw(where, pair.Name)
	c.notRaw(where, pair.Value)
	name, count := c.unseal(where, pair.Name, sink)
	value, n := c.unseal(where, pair.Value, sink)
	label = shownName{name, count > 0}
	if problem := contract.CheckHeaderName(name); problem != "" {
		c.endf(StageMutation, "%s: %s %s", where, label, problem)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		c.endf(StageMutation, "%s: the value of %s holds a line break or another control character", where, label)
	}
	if n > 0 && strings.TrimSpace(value) == "" {
		c.endf(StageMutation, "%s: the credential in %s is empty", where, label)
	}
	if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization") {
		scheme, rest, _ := strings.Cut(value, " ")
		if second, _, found := strings.Cut(strings.TrimLeft(rest, " "), " "); found && strings.EqualFold(scheme, second) {
			c.endf(StageMutation, "%s: the value of %s begins with its scheme twice: leave it out of the secret, or of the text before it", where, label)
		}
	}
	return name, value, label
}

// aloneWhenSealed is the rule for headers with sealed names, as errors state it. If such a header could stand beside
// another one, a plugin could use the error for two headers of one name to check a guess of a secret.
const aloneWhenSealed = "only a header that is alone may have such a name"

// shownName is the name of a header, for error messages. They do not quote a name that contains a sealed value.
type shownName struct {
	name   string
	sealed bool
}

func (n shownName) String() string {
	if n.sealed {
		return "a sealed name"
	}
	return fmt.Sprintf("%q", printable.Text(n.name, 128))
}

// parameters puts the sealed values into parameters of the query or of a form, checks them, and returns them encoded.
// Errors say where they are.
func (c *Call) parameters(m *Mutation, where string, pairs []abi.Pair, sink seal.Sinks, encode func(string) string) string {
	members := make([]string, len(pairs))
	for i, pair := range pairs {
		name, count := c.unseal(where, pair.Name, sink)
		value, n := c.unseal(where, pair.Value, sink)
		m.parameters = append(m.parameters, abi.Pair{Name: name, Value: value})
		c.recordOpened(m, pair, name, value)
		if count > 0 {
			m.credentials, m.sealedParameter = append(m.credentials, name), true
		}
		if n > 0 {
			m.credentials = append(m.credentials, value)
		}
		switch {
		case strings.TrimSpace(name) == "":
			c.endf(StageMutation, "%s has a parameter without a name", where)
		case n > 0 && strings.TrimSpace(value) == "":
			c.endf(StageMutation, "%s: a credential is empty", where)
		}
		members[i] = encode(name) + "=" + encode(value)
	}
	return strings.Join(members, "&")
}

// cookies puts the sealed values into cookies and checks them (RFC 6265 section 4.1.1).
func (c *Call) cookies(m *Mutation, pairs []abi.Pair) {
	const where = "the mutation's cookies"
	for _, pair := range pairs {
		c.rejectSealed("the name of a cookie", pair.Name)
		c.notRaw(where, pair.Value)
		value, count := c.unseal(where, pair.Value, seal.Header)
		switch {
		case !httpguts.ValidHeaderFieldName(pair.Name):
			c.endf(StageMutation, "%s: %q is not the name of a cookie", where, printable.Text(pair.Name, 128))
		case slices.ContainsFunc(m.Cookies, func(p abi.Pair) bool { return p.Name == pair.Name }):
			c.endf(StageMutation, "the mutation sets cookie %q twice", pair.Name)
		case strings.ContainsFunc(value, notInCookie):
			c.endf(StageMutation, "%s: the value of %q holds a character that no cookie may have", where, pair.Name)
		case count > 0 && value == "":
			c.endf(StageMutation, "%s: the credential in %q is empty", where, pair.Name)
		}
		m.Cookies = append(m.Cookies, abi.Pair{Name: pair.Name, Value: value})
		c.recordOpened(m, pair, pair.Name, value)
	}
}

// notInCookie reports whether the value of a cookie may not contain r. Quotes and commas are common in cookies, although
// RFC 6265 does not allow them.
func notInCookie(r rune) bool { return r <= ' ' || r >= 0x7f || r == ';' || r == '\\' }

// path puts the sealed values into the texts that replace placeholders in the path. Such a text may be several segments, but
// may not lead upwards.
func (c *Call) path(m *Mutation, pairs []abi.Pair) {
	const where = "the mutation's path"
	for _, pair := range pairs {
		c.rejectSealed("a placeholder of the path", pair.Name)
		c.notRaw(where, pair.Value)
		value, count := c.unseal(where, pair.Value, seal.Path)
		if pair.Name == "" || slices.ContainsFunc(m.Path, func(p abi.Pair) bool { return p.Name == pair.Name }) {
			c.endf(StageMutation, "%s: a placeholder is empty or there twice", where)
		}
		if count > 0 && strings.TrimSpace(value) == "" {
			c.endf(StageMutation, "%s: the credential is empty", where)
		}
		segments := strings.Split(value, "/")
		for i, segment := range segments {
			if segment == "." || segment == ".." {
				c.endf(StageMutation, "%s: a value has a segment that leads elsewhere", where)
			}
			segments[i] = url.PathEscape(segment) // leaves a colon, which tokens in paths have
		}
		m.Path = append(m.Path, abi.Pair{Name: pair.Name, Value: strings.Join(segments, "/")})
		c.recordOpened(m, pair, pair.Name, value)
		if count > 0 {
			m.credentials = append(m.credentials, value)
		}
	}
}

// url returns the URL that a sealed value is, or nil if there is none. It is all of the value, so that no plugin chooses the host.
func (c *Call) url(text string) *url.URL {
	const where = "the mutation's url"
	if text == "" {
		return nil
	}
	value, count := c.unseal(where, text, seal.URL)
	isOfPlugin := false // which has made it of others, with text of its choice
	for v := range c.sealed.In(text) {
		isOfPlugin = isOfPlugin || v.Size > 0
		c.usedOrigins = c.usedOrigins.And(v.From)
	}
	if isOfPlugin || count != 1 || len(text) != len(contract.SealedPrefix)+contract.SealedLength {
		c.endf(StageMutation, "%s is not one sealed value, as it is configured or answered", where)
	}
	return c.hostURL(where, value)
}

// hostURL parses a URL that an answer names for requests, and ends the call if they may not go there.
func (c *core) hostURL(where, text string) *url.URL {
	if c.mode == Explaining { // the answer is made up
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || c.plan.CheckURL(text) != nil || strings.Contains(text, "?") || urlpath.Check(u.EscapedPath()) != nil:
		c.endf(StageMutation, "%s is no https URL of a host and perhaps a path", where)
	case c.plan.HostOf(u) == "":
		c.endf(StageMutation, "%s has a host that hosts does not list", where)
	}
	return u
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
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), m.hasParameter), "&")
}

func (m *Mutation) hasParameter(parameter string) bool {
	escapedName, escapedValue, _ := strings.Cut(parameter, "=")
	name, nameErr := url.QueryUnescape(escapedName)
	value, valueErr := url.QueryUnescape(escapedValue)
	return nameErr == nil && valueErr == nil && (slices.Contains(m.parameters, abi.Pair{Name: name, Value: value}) ||
		len(value) >= leakscan.MinText && slices.Contains(m.credentials, value))
}

// recordOpened adds the texts of a header or parameter that came from sealed values to m.opened, and the cache entries
// that these came from to c.usedOrigins. pair is the pair with references.
func (c *Call) recordOpened(m *Mutation, pair abi.Pair, name, value string) {
	for _, text := range [...][2]string{{pair.Name, name}, {pair.Value, value}} {
		if text[0] == text[1] {
			continue // without a sealed value
		}
		secret := false
		for v := range c.sealed.In(text[0]) {
			c.usedOrigins = c.usedOrigins.And(v.From)
			if !v.Public {
				m.openedTexts, secret = append(m.openedTexts, v.Text), true
			}
		}
		if secret {
			m.openedTexts = append(m.openedTexts, text[1])
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
		if c.hasSecret(m, header.Value) {
			all = append(all, leakscan.Parts(header.Value)...)
		}
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
	if c.plan.Names.Listed() {
		c.endf(StagePlugin, "reveal was called, but the configuration names user.token or an identity, which no plugin gets in plain")
	}
	if c.inputs.Earlier != nil && c.RequestRead {
		c.endf(StagePlugin, "reveal was called after the request was read, in which earlier authentications have put what no other plugin gets in plain: reveal first")
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
