package hostfn

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
	"golang.org/x/net/http/httpguts"
)

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
		Cookies: c.maskedPairs(document.Cookies), Path: c.maskedPairs(document.Path),
	}
	for i := range m.Headers {
		m.Headers[i].Name = http.CanonicalHeaderKey(m.Headers[i].Name)
	}
	return m
}

func (c *Call) mutation(output []byte) *Mutation {
	document, simple := scanMutation(output)
	if !simple {
		document = contract.Mutation{}
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
	return m
}

// scanMutation decodes a mutation that is simple JSON, as the SDK and most serialisers write it.
func scanMutation(output []byte) (m contract.Mutation, simple bool) {
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
		name, count := c.unseal(where, pair.Name, sink)
		value, n := c.unseal(where, pair.Value, sink)
		c.openedValues += count + n
		m.parameters = append(m.parameters, abi.Pair{Name: name, Value: value})
		c.recordOpened(m, pair, name, value)
		if count > 0 {
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
		c.rejectSealed("the name of a cookie", pair.Name)
		c.notRaw(where, pair.Value)
		value, count := c.unseal(where, pair.Value, seal.Header)
		c.openedValues += count
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
		c.openedValues += count
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
