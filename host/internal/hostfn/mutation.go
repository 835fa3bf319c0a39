package hostfn

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
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
	// opened holds the names and values of headers and parameters that contain sealed values, and these values.
	opened []string
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
		for _, form := range forms(credential) {
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
		if !m.has(parameter) {
			rest = append(rest, parameter)
		}
	}
	return strings.Join(rest, "&")
}

func (m *Mutation) has(parameter string) bool {
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

// Mutation decodes the output of authenticate, checks it, and puts the sealed values in. Scrub still works after a failure.
func (c *Call) Mutation(output []byte) (m *Mutation, failure *Failure) {
	failure = c.try(func() { m = c.mutation(output) })
	return m, failure
}

// Masked returns the mutation of a guest's output, which Mutation has accepted, as a person may see it.
func (c *Call) Masked(output []byte) *Mutation {
	var document abi.Mutation
	_ = strictjson.Unmarshal(output, &document) // Mutation has accepted it
	m := &Mutation{Pass: document.Pass}
	for _, pair := range document.Headers {
		m.Headers = append(m.Headers, abi.Pair{Name: http.CanonicalHeaderKey(c.masked(pair.Name)), Value: c.masked(pair.Value)})
	}
	m.Query, m.Form = c.maskedParameters(document.Query), c.maskedParameters(document.Form)
	for _, pair := range document.Cookies {
		m.Cookies = append(m.Cookies, abi.Pair{Name: pair.Name, Value: c.masked(pair.Value)})
	}
	for _, pair := range document.Path {
		m.Path = append(m.Path, abi.Pair{Name: pair.Name, Value: c.masked(pair.Value)})
	}
	return m
}

// maskedParameters returns parameters as a person may see them.
func (c *core) maskedParameters(pairs []abi.Pair) string {
	text := ""
	for _, pair := range pairs {
		text += "&" + c.masked(pair.Name) + "=" + c.masked(pair.Value)
	}
	return strings.TrimPrefix(text, "&")
}

func (c *Call) mutation(output []byte) *Mutation {
	document, simple := scanMutation(output)
	if !simple {
		document = abi.Mutation{}
		if err := strictjson.Unmarshal(output, &document); err != nil {
			c.endf(StageMutation, "the plugin's output %w", err)
		}
	}
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
	m := &Mutation{Headers: document.Headers[:0]} // reuse the array: each header is read before its place is written
	c.openedValues = 0                            // do not count the values that went into token requests
	for _, pair := range document.Headers {
		name, value, shown := c.header("the mutation's headers", pair, seal.Header)
		if shown.sealed && len(document.Headers) > 1 {
			c.endf(StageMutation, "the mutation's headers: there are several, and the name of one is sealed: %s", aloneWhenSealed)
		}
		if slices.ContainsFunc(m.Headers, func(other abi.Pair) bool { return strings.EqualFold(other.Name, name) }) {
			c.endf(StageMutation, "the mutation sets header %s twice", shown)
		}
		m.Headers = append(m.Headers, abi.Pair{Name: http.CanonicalHeaderKey(name), Value: value})
		m.SealedName = shown.sealed
		c.recordOpened(m, pair, name, value)
	}
	m.Query = c.parameters(m, "the mutation's query", document.Query, seal.Query, urlpath.Percent)
	m.Form = c.parameters(m, "the mutation's form", document.Form, seal.Body, url.QueryEscape)
	c.cookies(m, document.Cookies)
	c.path(m, document.Path)
	if c.openedValues == 0 && !c.revealed && !c.plan.Anonymous {
		c.end(StageMutation, errors.New("the mutation holds no credential: no sealed value is put to use in it"))
	}
	return m
}

// scanMutation decodes a mutation that is simple JSON, as the SDK and most serialisers write it.
func scanMutation(output []byte) (m abi.Mutation, simple bool) {
	simple = strictjson.ReadSimple(string(output), func(s *strictjson.Simple, name string) (ok bool) {
		switch name {
		case "headers":
			m.Headers, ok = readPairs(s)
		case "query":
			m.Query, ok = readPairs(s)
		}
		return ok
	})
	return m, simple
}

func readPairs(s *strictjson.Simple) (pairs []abi.Pair, ok bool) {
	ok = s.Pairs(func(name, value string) { pairs = append(pairs, abi.Pair{Name: name, Value: value}) })
	return pairs, ok
}

// parameters puts the sealed values into parameters of the query or of a form, checks them, and returns them encoded.
// Errors say where they are.
func (c *Call) parameters(m *Mutation, where string, pairs []abi.Pair, sink seal.Sinks, encode func(string) string) string {
	var text strings.Builder
	for i, pair := range pairs {
		name, opened := c.open(where, pair.Name, sink)
		value, n := c.open(where, pair.Value, sink)
		c.openedValues += opened + n
		m.parameters = append(m.parameters, abi.Pair{Name: name, Value: value})
		c.recordOpened(m, pair, name, value)
		if opened > 0 {
			m.credentials = append(m.credentials, name)
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
		if i > 0 {
			text.WriteByte('&')
		}
		text.WriteString(encode(name) + "=" + encode(value))
	}
	return text.String()
}

// cookies puts the sealed values into cookies and checks them (RFC 6265 section 4.1.1).
func (c *Call) cookies(m *Mutation, pairs []abi.Pair) {
	const where = "the mutation's cookies"
	for _, pair := range pairs {
		c.plain("the name of a cookie", pair.Name)
		c.notRaw(where, pair.Value)
		value, opened := c.open(where, pair.Value, seal.Header)
		c.openedValues += opened
		switch {
		case !httpguts.ValidHeaderFieldName(pair.Name):
			c.endf(StageMutation, "%s: %q is not the name of a cookie", where, printable.Text(pair.Name, 128))
		case slices.ContainsFunc(m.Cookies, func(other abi.Pair) bool { return other.Name == pair.Name }):
			c.endf(StageMutation, "the mutation sets cookie %q twice", pair.Name)
		case strings.ContainsFunc(value, notInCookie):
			c.endf(StageMutation, "%s: the value of %q holds a character that no cookie may have", where, pair.Name)
		case opened > 0 && value == "":
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
		c.plain("a placeholder of the path", pair.Name)
		c.notRaw(where, pair.Value)
		value, opened := c.open(where, pair.Value, seal.Path)
		c.openedValues += opened
		if pair.Name == "" || slices.ContainsFunc(m.Path, func(other abi.Pair) bool { return other.Name == pair.Name }) {
			c.endf(StageMutation, "%s: a placeholder is empty or there twice", where)
		}
		if opened > 0 && strings.TrimSpace(value) == "" {
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
		if opened > 0 {
			m.credentials = append(m.credentials, value)
		}
	}
}

// aloneWhenSealed is the rule for headers with sealed names, as errors state it. If such a header could stand beside
// another one, a plugin could use the error for two headers of one name to check a guess of a secret.
const aloneWhenSealed = "only a header that is alone may have such a name"

// header puts the sealed values into a header that the guest sets, and checks it. shown is its name for error messages.
func (c *core) header(where string, pair abi.Pair, sink seal.Sinks) (name, value string, shown shownName) {
	c.notRaw(where, pair.Name)
	c.notRaw(where, pair.Value)
	name, opened := c.open(where, pair.Name, sink)
	value, n := c.open(where, pair.Value, sink)
	c.openedValues += opened + n
	shown = shownName{name, opened > 0}
	if problem := abi.CheckHeaderName(name); problem != "" {
		c.endf(StageMutation, "%s: %s %s", where, shown, problem)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		c.endf(StageMutation, "%s: the value of %s holds a line break or another control character", where, shown)
	}
	if n > 0 && strings.TrimSpace(value) == "" {
		c.endf(StageMutation, "%s: the credential in %s is empty", where, shown)
	}
	if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization") {
		scheme, rest, _ := strings.Cut(value, " ")
		if again, _, found := strings.Cut(strings.TrimLeft(rest, " "), " "); found && strings.EqualFold(scheme, again) {
			c.endf(StageMutation, "%s: the value of %s begins with its scheme twice: leave it out of the secret, or of the text before it", where, shown)
		}
	}
	return name, value, shown
}

// masked returns a text of the mutation as a person may see it. After Reveal it also scrubs the text, because the guest
// may have put a credential in without a reference.
func (c *core) masked(text string) string {
	if c.revealed {
		text = c.Scrub(text)
	}
	return c.sealed.Mask(text)
}

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
