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
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// Mutation is the change of a request, with its sealed values put in: never to be logged.
type Mutation struct {
	Headers    []abi.Pair
	Query      string // to be appended to the raw query
	SealedName bool   // the name of the one header holds a sealed value

	parameters  []abi.Pair // of Query
	credentials []string   // those that they hold
	opened      []string   // the texts, of headers and parameters, that sealed values were put into, and these themselves
}

// Echoed reports whether a URL of the API's holds a credential of the query, however it is written. A short one is
// there by chance, too.
func (m *Mutation) Echoed(address string) bool {
	texts := []string{address}
	for _, unescape := range []func(string) (string, error){url.QueryUnescape, url.PathUnescape} {
		text, err := unescape(address)
		for range 3 { // a parameter may be a URL itself, as that of a login page which is to send the client back
			if err != nil {
				break
			}
			texts = append(texts, text)
			text, err = unescape(text)
		}
	}
	for _, credential := range m.credentials {
		for _, form := range forms(credential) {
			if len(form) >= scrubbable && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, form) }) {
				return true
			}
		}
	}
	return false
}

// Without returns a raw query without the parameters of this one, and without others that hold a credential of it.
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
		len(value) >= scrubbable && slices.Contains(m.credentials, value)
}

// Mutation decodes the output of authenticate, checks all of it, and puts the sealed values in. The sealed values of the
// call are still in place when it failed, for Scrub.
func (c *Call) Mutation(output []byte) (m *Mutation, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(ended); !ours {
				panic(r)
			}
			m, err = nil, c.failure
		}
	}()
	return c.mutation(output), nil
}

// Explanation is Mutation for a person: sealed values are shown as what they stand for.
func (c *Call) Explanation(output []byte) (*Mutation, error) {
	if _, err := c.Mutation(output); err != nil {
		return nil, err
	}
	var document abi.Mutation
	if err := strictjson.Unmarshal(output, &document); err != nil {
		return nil, err
	}
	m := &Mutation{}
	for _, pair := range document.Headers {
		m.Headers = append(m.Headers, abi.Pair{Name: http.CanonicalHeaderKey(c.masked(pair.Name)), Value: c.masked(pair.Value)})
	}
	for _, pair := range document.Query {
		m.Query += "&" + c.masked(pair.Name) + "=" + c.masked(pair.Value)
	}
	m.Query = strings.TrimPrefix(m.Query, "&")
	return m, nil
}

func (c *Call) mutation(output []byte) *Mutation {
	document, simple := scanMutation(output)
	if !simple {
		if err := strictjson.Unmarshal(output, &document); err != nil {
			c.endf(StageMutation, "the plugin's output %w", err)
		}
	}
	if n := len(document.Headers) + len(document.Query); n > c.plan.Limits.Mutations {
		c.endf(StageMutation, "the mutation has %d headers and query parameters, over the limit of %d", n, c.plan.Limits.Mutations)
	}
	m := &Mutation{Headers: document.Headers[:0]} // whose place what is put together takes
	c.putToUse = 0                                // what a token request needed is no credential of this request
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
		c.note(m, pair, name, value)
	}
	var query strings.Builder
	for i, pair := range document.Query {
		name, opened := c.open("the mutation's query", pair.Name, seal.Query)
		value, n := c.open("the mutation's query", pair.Value, seal.Query)
		c.put(opened + n)
		m.parameters = append(m.parameters, abi.Pair{Name: name, Value: value})
		c.note(m, pair, name, value)
		if opened > 0 {
			m.credentials = append(m.credentials, name)
		}
		if n > 0 {
			m.credentials = append(m.credentials, value)
		}
		switch {
		case strings.TrimSpace(name) == "":
			c.endf(StageMutation, "the mutation has a query parameter without a name")
		case n > 0 && strings.TrimSpace(value) == "":
			c.endf(StageMutation, "the mutation's query: a credential is empty")
		}
		if i > 0 {
			query.WriteByte('&')
		}
		query.WriteString(percentEncode(name) + "=" + percentEncode(value))
	}
	m.Query = query.String()
	if c.putToUse == 0 && !c.revealed && !c.plan.Anonymous {
		c.end(StageMutation, errors.New("the mutation holds no credential: no sealed value is put to use in it"))
	}
	return m
}

// aloneWhenSealed is the rule for headers with sealed names. Beside another, whether the request fails for two headers of
// one name would tell a plugin whether its guess of a secret is right.
const aloneWhenSealed = "only a header that is alone may have such a name"

// percentEncode encodes as RFC 3986 section 2.1 has it. A space is %20, which all servers read, and not a + as in forms.
func percentEncode(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// header opens and checks a header that a guest wants set. Errors may show its name as shown.
func (c *Call) header(where string, pair abi.Pair, sink seal.Sinks) (name, value string, shown shownName) {
	c.notRaw(where, pair.Name)
	c.notRaw(where, pair.Value)
	name, opened := c.open(where, pair.Name, sink)
	value, n := c.open(where, pair.Value, sink)
	c.put(opened + n)
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
	return name, value, shown
}

// masked shows a text of the mutation to a person. A guest that may reveal puts credentials in without a reference.
func (c *Call) masked(text string) string {
	if c.revealed {
		text = c.Scrub(text)
	}
	return c.sealed.Mask(text)
}

func (c *Call) put(opened int) { c.putToUse += opened }

// shownName is a name as errors may show it.
type shownName struct {
	name   string
	sealed bool
}

func (n shownName) String() string {
	if n.sealed {
		return "a sealed name"
	}
	return fmt.Sprintf("%q", Printable(n.name, 128))
}
