package hostfn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Input returns the outgoing request as a contract.Request in JSON, or a contract.ConsentReply in a run of connect, or nil if there is
// neither. After Input returned a request, the call can neither store nor send anything, so that nothing of one request reaches
// another (threats.md 15c).
func (c *Call) Input() []byte {
	c.begin()
	c.endAhead()
	switch {
	case c.inputs.Code != nil:
		return c.codeInput()
	case c.inputs.Request == nil: // as in calls of describe, validate and consent
		return nil
	}
	c.readsRequest()
	r := c.view()
	target := *r.URL
	target.User, target.Host = nil, compose.Host(r)
	address := target.String()
	sealed := c.sealer(compose.Longest(address, r.Header))
	request := contract.Request{Method: cmp.Or(r.Method, http.MethodGet), URL: sealed.Text(address), Headers: []abi.Pair{}}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if contract.Unseen(name) {
			continue
		}
		for _, value := range r.Header[name] {
			request.Headers = append(request.Headers, abi.Pair{Name: sealed.Text(name), Value: sealed.Text(value)})
		}
	}
	if n, ok := c.contentLength(); ok && c.earlierForm() == "" { // it would show how long the credential is
		request.ContentLength = &n
	}
	return c.marshal(request)
}

// codeInput returns the input of connect.
func (c *Call) codeInput() []byte {
	code := c.inputs.Code
	reply := contract.ConsentReply{Code: c.seal(seal.Value{Text: code.Code, Sinks: seal.Token, Mask: "<code>"}), RedirectURI: code.RedirectURI}
	if code.Verifier != "" {
		reply.CodeVerifier = c.seal(seal.Value{Text: code.Verifier, Sinks: seal.Token, Mask: "<code_verifier>"})
	}
	return c.marshal(reply)
}

// Body returns a sealed value that stands for the body of the request. Its only sink is digest, so a body of any length can
// be hashed without passing through the guest. A body that can be read only once ends the run with a Restart. The host then
// reads and keeps it outside of the sandbox, so that a slow sender does not occupy a guest.
func (c *Call) Body() string {
	c.requireGroup(contract.UserBody)
	c.needRequest(contract.UserBody)
	body := c.seal(seal.Value{Sinks: seal.Digest, Mask: "<body>", Stream: c.openBody()})
	if form := c.earlierForm(); form != "" {
		body += c.earlier(form)
	}
	return body
}

func (c *Call) openBody() seal.Stream {
	r, open := c.inputs.Request, c.inputs.Body
	switch {
	case open != nil:
	case r.Body == nil || r.Body == http.NoBody:
		open = func() (io.ReadCloser, error) { return http.NoBody, nil }
	case r.GetBody != nil:
		open = r.GetBody
	case c.mode == Explaining:
		open = func() (io.ReadCloser, error) {
			return nil, errors.New("it can be read only once, and only a request that is sent may read it")
		}
	default:
		c.runAgain(Restart{Body: true})
	}
	return func() (io.ReadCloser, error) {
		if c.bodyReads++; c.bodyReads > maxBodyReads {
			return nil, fmt.Errorf("a call may read it %d times", maxBodyReads)
		}
		body, err := open()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
		return &timedBody{body, ctx, cancel}, nil
	}
}

// timedBody is a body that must be read before ctx ends.
type timedBody struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *timedBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.body.Read(p)
}

func (b *timedBody) Close() error {
	b.cancel()
	return b.body.Close()
}

// BodyForm returns the members of the body as a JSON list of abi.Pair, in their order. ok is false unless the body is a form
// (application/x-www-form-urlencoded). Like Body, it may end the run with a Restart.
func (c *Call) BodyForm() (pairs []byte, ok bool) {
	c.requireGroup(contract.UserBodyForm)
	c.needRequest(contract.UserBodyForm)
	if kind, _, err := mime.ParseMediaType(c.inputs.Request.Header.Get("Content-Type")); err != nil || kind != formType {
		return nil, false
	}
	if Encoded(c.inputs.Request.Header) {
		c.endf(StageBody, "the request's form cannot be read: it has a Content-Encoding")
	}
	body, err := c.openBody()()
	if err != nil {
		c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
	}
	defer body.Close()
	form, err := io.ReadAll(io.LimitReader(body, maxForm+1))
	switch {
	case err != nil:
		c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
	case len(form) > maxForm:
		c.endf(StageBody, "the request's form is longer than %d bytes, too long to be signed", maxForm)
	}
	list := []any{}
	sealed := c.sealer(len(form))
	for member := range strings.SplitSeq(string(form)+c.viewForm(), "&") {
		name, value, _ := strings.Cut(member, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		switch {
		case nameErr != nil || valueErr != nil || !utf8.ValidString(name+value):
			c.endf(StageBody, "the request's form has a member that is not percent-encoded UTF-8")
		case member != "":
			list = append(list, map[string]any{"name": sealed.Text(name), "value": sealed.Text(value)})
		}
	}
	return c.marshal(list), true
}

// Encoded reports whether the body of a request has a Content-Encoding other than identity (RFC 9110 section 8.4), such as gzip.
func Encoded(headers http.Header) bool {
	for name, values := range headers {
		if strings.EqualFold(name, "Content-Encoding") { // net/http sends a name as it is
			for _, value := range values {
				if value = strings.TrimSpace(value); value != "" && !strings.EqualFold(value, "identity") {
					return true
				}
			}
		}
	}
	return false
}

// compose returns a text of the outgoing request by a template.
func (c *Call) compose(template string, with *contract.Composition) string {
	if c.composer == nil {
		c.composer = compose.New(composing{c})
	}
	text, problem := c.composer.Compose(template, with)
	if problem != "" {
		c.endf(StagePlugin, "%s %s", c.templateName(template), printable.Text(problem, 1024))
	}
	return text
}

// composition decodes the second parameter of compose.
func (c *core) composition(document []byte) (with contract.Composition) {
	err := strictjson.Decode(document, &with, func(s *strictjson.Simple, name string) (ok bool) {
		switch name {
		case "headers":
			with.Headers, ok = s.Pairs()
		case "query":
			with.Query, ok = s.Pairs()
		case "form":
			with.Form, ok = s.Pairs()
		case "values":
			with.Values, ok = s.Pairs()
		}
		return ok
	})
	if err != nil {
		c.endf(StagePlugin, "the composition of compose %w", err)
	}
	return with
}

// composing is a call for package compose. It implements compose.Call.
type composing struct{ *Call }

func (c composing) Request() *http.Request {
	c.needRequest(contract.UserCompose)
	return c.view()
}

func (c composing) Shows(header string) bool { return c.inputs.Earlier.sets(header) }
func (c composing) ContentLength() string {
	n, ok := c.contentLength()
	form := c.earlierForm()
	text := strconv.FormatInt(n+int64(len(form)), 10)
	switch {
	case !ok:
		return ""
	case form != "":
		return c.earlier(text)
	}
	return text
}

func (c composing) HasBody() bool {
	n, ok := c.contentLength()
	switch {
	case c.earlierForm() != "":
		return true
	case c.inputs.Body != nil: // also with trailers, which are sent without a length
		n = c.inputs.BodySize
	case !ok && c.mode != Explaining:
		c.runAgain(Restart{Body: true})
	}
	return n != 0
}

func (c composing) Varies()                           { c.impure = true }
func (c composing) Sealer(longest int) compose.Sealer { return c.sealer(longest) }
func (c composing) Plain(text string) bool            { return c.sealed.Plain(text) == nil }
func (c composing) RejectSealed(where, text string)   { c.rejectSealed(where, text) }
func (c composing) Endf(format string, args ...any)   { c.endf(StagePlugin, format, args...) }

// And returns the mutation of authentications one after the other: m, which may be nil, and then next. It is an error if both set the
// same, of which a server would take either one. Where a name is a secret, all of its kind counts as the same: otherwise a plugin could
// use the error to check a guess of the name.
func (m *Mutation) And(next *Mutation) (*Mutation, error) {
	if m == nil {
		return next, nil
	}
	all := &Mutation{
		Headers: slices.Concat(m.Headers, next.Headers), Cookies: slices.Concat(m.Cookies, next.Cookies), Path: slices.Concat(m.Path, next.Path),
		Query: joinMembers(m.Query, next.Query), Form: joinMembers(m.Form, next.Form),
		SealedName: m.SealedName || next.SealedName, sealedParameter: m.sealedParameter || next.sealedParameter,
		parameters: slices.Concat(m.parameters, next.parameters), credentials: slices.Concat(m.credentials, next.credentials),
		openedTexts: slices.Concat(m.openedTexts, next.openedTexts), URL: cmp.Or(m.URL, next.URL), MaskedURL: m.MaskedURL + next.MaskedURL,
	}
	var part string
	switch {
	case all.SealedName && len(m.Headers) > 0 && len(next.Headers) > 0, m.setsOneOf(next.Headers), next.setsOneOf(m.Headers):
		part = "header"
	case slices.ContainsFunc(next.Cookies, func(p abi.Pair) bool {
		return slices.ContainsFunc(m.Cookies, func(earlier abi.Pair) bool { return earlier.Name == p.Name })
	}):
		part = "cookie"
	case all.sealedParameter && len(m.parameters) > 0 && len(next.parameters) > 0, shareMember(m.Query, next.Query), shareMember(m.Form, next.Form):
		part = "parameter"
	case m.setsURL() && next.setsURL():
		part = "url"
	case len(next.Path) > 0 && (len(m.Path) > 0 || m.setsURL()): // a placeholder may be found in the other's text, or be a guess of it
		part = "path"
	default:
		return all, nil
	}
	return nil, errors.New("the mutation sets a " + part + " that an earlier one of auth sets, or may set: leave it to one of them")
}

func (m *Mutation) setsURL() bool { return m.URL != nil || m.MaskedURL != "" }

func joinMembers(text, more string) string {
	if text != "" && more != "" {
		text += "&"
	}
	return text + more
}

// setsOneOf reports whether m sets one of headers, whatever the case of its name.
func (m *Mutation) setsOneOf(headers []abi.Pair) bool {
	return slices.ContainsFunc(headers, func(p abi.Pair) bool { return m.sets(p.Name) })
}

func (m *Mutation) sets(header string) bool {
	return m != nil && (len(m.Cookies) > 0 && strings.EqualFold(header, "Cookie") ||
		slices.ContainsFunc(m.Headers, func(p abi.Pair) bool { return strings.EqualFold(p.Name, header) }))
}

// shareMember reports whether two encoded lists of parameters have members that some server may take for one.
func shareMember(text, more string) bool {
	for member := range strings.SplitSeq(text, "&") {
		for one := range strings.SplitSeq(more, "&") {
			name, second := urlcheck.MemberName(member), urlcheck.MemberName(one)
			if member != "" && one != "" && (urlcheck.MayBeMember(name, second) || urlcheck.MayBeMember(second, name)) {
				return true
			}
		}
	}
	return false
}

// view returns the request as the guest sees it: what earlier authentications have put in is a reference as a whole, by its place. A
// search for the texts would miss short ones, or confirm guesses of them. So the guest can sign these texts, and do nothing else.
func (c *core) view() *http.Request {
	m, r := c.inputs.Earlier, c.inputs.Request
	switch {
	case m == nil:
		return r
	case c.viewed != nil:
		return c.viewed
	}
	view, target := *r, *r.URL
	view.URL, view.Header = &target, maps.Clone(r.Header)
	for name := range view.Header {
		switch {
		case !m.sets(name):
		case m.SealedName:
			delete(view.Header, name) // to show it would confirm a guess of the name
		default:
			view.Header[name] = []string{c.earlier(strings.Join(view.Header[name], ", "))}
		}
	}
	if len(m.Path) > 0 || m.URL != nil { // the host is listed, and signatures cover it
		target.Path, target.RawPath = "/"+c.earlier(strings.TrimPrefix(target.EscapedPath(), "/")), ""
	}
	if m.Query != "" {
		target.RawQuery = strings.TrimSuffix(target.RawQuery, m.Query) + c.viewMembers(m.Query, func(value string) string { return value })
	}
	c.viewed = &view
	return c.viewed
}

// earlierForm returns what earlier authentications append to the body, with the separator, or "". It is no part of the body of the inputs.
func (c *core) earlierForm() string {
	m := c.inputs.Earlier
	switch {
	case m == nil || m.Form == "":
		return ""
	case c.inputs.BodySize > 0:
		return "&" + m.Form
	}
	return m.Form
}

// viewForm returns what earlier authentications append to a form, as the guest sees it. The references are to decoded values.
func (c *core) viewForm() string {
	if c.earlierForm() == "" {
		return ""
	}
	return "&" + c.viewMembers(c.inputs.Earlier.Form, func(value string) string {
		decoded, _ := url.QueryUnescape(value) // the host has encoded it
		return decoded
	})
}

// viewMembers returns members that have been appended to a text, with references in place of their values. If a name may be sealed, each
// member is one reference: to show its name would confirm a guess of it.
func (c *core) viewMembers(appended string, decode func(value string) string) string {
	members := strings.Split(appended, "&")
	for i, member := range members {
		name, value, _ := strings.Cut(member, "=")
		if members[i] = name + "=" + c.earlier(decode(value)); c.inputs.Earlier.sealedParameter {
			members[i] = c.earlier(member)
		}
	}
	return strings.Join(members, "&")
}

// earlier returns a reference to a text that an earlier authentication has put into the request.
func (c *core) earlier(text string) string {
	v := seal.Value{Text: text, Sinks: seal.Digest, Derived: seal.Header | seal.Query | seal.Digest}
	if c.mode == Explaining { // the text is masked
		v.Mask = text
	}
	return c.seal(v)
}
