package hostfn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// Input returns the outgoing request as an abi.Request in JSON, or an abi.ConsentReply in a run of connect, or nil if there is
// neither. After Input returned a request, the call can neither store nor send anything, so that nothing of one request reaches
// another (threats.md 15c).
func (c *Call) Input() []byte {
	c.endAhead()
	switch {
	case c.inputs.Code != nil:
		return c.codeInput()
	case c.inputs.Request == nil: // as in calls of describe, validate and consent
		return nil
	}
	c.readsRequest()
	r := c.inputs.Request
	target := *r.URL
	target.User, target.Host = nil, compose.Host(r)
	address := target.String()
	sealed := c.sealer(compose.Longest(address, r.Header))
	request := abi.Request{Method: r.Method, URL: sealed.Text(address), Headers: []abi.Pair{}}
	if request.Method == "" {
		request.Method = http.MethodGet
	}
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "Cookie", "Proxy-Authorization":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.Header[name] {
			request.Headers = append(request.Headers, abi.Pair{Name: sealed.Text(name), Value: sealed.Text(value)})
		}
	}
	if n, known := c.contentLength(); known {
		request.ContentLength = &n
	}
	document, err := strictjson.Marshal(request)
	if err != nil {
		c.endf(StagePlugin, "the request cannot be given to the plugin: %w", err)
	}
	return document
}

// contentLength returns the length of the request's body, and whether it is known.
func (c *core) contentLength() (n int64, known bool) {
	r := c.inputs.Request
	if c.inputs.Body != nil && len(r.Trailer) == 0 { // a kept body is sent with its length, whatever the caller knew
		return c.inputs.BodySize, true
	}
	if r.Body == nil || r.Body == http.NoBody {
		return 0, true
	}
	return r.ContentLength, r.ContentLength > 0
}

// sealer replaces the call's secrets in the texts of a request by references. The platform may have put secrets there.
type sealer struct {
	call  *core
	forms []string
	// references maps each form that has been found to its reference, so that each has only one.
	references map[string]string
}

// Text returns text with the forms of secrets replaced by references.
func (s *sealer) Text(text string) string {
	var pairs []string
	for _, form := range s.forms {
		if len(form) < leakscan.MinText || !strings.Contains(text, form) { // sealing a short one would confirm a user's guess
			continue
		}
		pairs = append(pairs, form, s.reference(form))
	}
	if pairs == nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Part returns text[from:to] like Text. If a form begins or ends outside of the part, such as a URL that is a secret, the whole part
// becomes a reference.
func (s *sealer) Part(text string, from, to int) string {
	if from == to {
		return ""
	}
	for _, form := range s.forms {
		if len(form) < leakscan.MinText {
			continue
		}
		for at := 0; at < to; at++ {
			i := strings.Index(text[at:], form)
			if i < 0 {
				break
			}
			at += i
			if end := at + len(form); at < to && end > from && (at < from || end > to) {
				return s.reference(text[from:to])
			}
		}
	}
	return s.Text(text[from:to])
}

// reference returns the reference to a text of the request.
func (s *sealer) reference(text string) string {
	if s.references[text] == "" {
		// The text is in the request already. A JWT with it can only go there too, since nothing else can be sent any more.
		const sent = seal.Header | seal.Query | seal.Claim
		if s.references == nil {
			s.references = map[string]string{}
		}
		s.references[text] = s.call.seal(seal.Value{Text: text, Sinks: sent | seal.Digest, Derived: sent | seal.Digest})
	}
	return s.references[text]
}

// sealer returns a sealer for texts of the request, of which the longest has longest bytes. It leaves out short secrets, and all
// that the guest has made: a caller could have guessed it, and to seal it would confirm the guess, also of a short secret in it.
// No form of a secret is shorter than the secret, so it also leaves out those that are longer than the longest text. Most keys
// are.
func (c *core) sealer(longest int) *sealer {
	return &sealer{call: c, forms: c.formsOf(longest, func(secret string, v *seal.Value) bool {
		return len(secret) >= leakscan.MinText && (v == nil || !v.Raw && v.Size == 0)
	})}
}

// readsRequest records that the guest reads something of the request. From here on nothing can be stored, and the outcome of
// the call may depend on this request.
func (c *core) readsRequest() {
	c.inputRead, c.uncacheable = true, true
	if c.Lease != nil {
		c.Lease.End(nil)
	}
}

// maxBodyReads is the maximum number of times that a call reads the body.
const maxBodyReads = 8

// Body returns a sealed value that stands for the body of the request. Its only sink is digest, so a body of any length can
// be hashed without passing through the guest. A body that can be read only once ends the run with a Restart. The host then
// reads and keeps it outside of the sandbox, so that a slow sender does not occupy a guest.
func (c *Call) Body() string {
	c.need(abi.UserBody)
	c.needRequest(abi.UserBody)
	return c.seal(seal.Value{Sinks: seal.Digest, Mask: "<body>", Stream: c.openBody()})
}

// needRequest ends the call unless there is a request, and records that the guest reads it.
func (c *core) needRequest(function string) {
	c.endAhead()
	if c.inputs.Request == nil {
		c.endf(StagePlugin, "%s is for authenticate only", function)
	}
	c.readsRequest()
}

// endAhead ends a call that replaces an entry ahead of its end.
func (c *core) endAhead() {
	if c.Old != nil {
		c.restart = &Restart{}
		panic(ended{})
	}
}

// openBody returns the body of the request as a stream.
func (c *Call) openBody() *bodyStream {
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
		c.restart = &Restart{Body: true}
		panic(ended{})
	}
	return &bodyStream{c, open}
}

// bodyStream is the body of a call's request. It implements seal.Stream.
type bodyStream struct {
	call *Call
	open func() (io.ReadCloser, error)
}

// Open implements seal.Stream.
func (b *bodyStream) Open() (io.ReadCloser, error) {
	c := b.call
	if c.bodyReads++; c.bodyReads > maxBodyReads {
		return nil, fmt.Errorf("a call may read it %d times", maxBodyReads)
	}
	body, err := b.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	return &timedBody{reader{ctx, body}, body, cancel}, nil
}

// timedBody is a body that must be read in time.
type timedBody struct {
	io.Reader
	body   io.Closer
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b *timedBody) Close() error {
	b.cancel()
	return b.body.Close()
}

// maxForm is the maximum length of a form that BodyForm returns, in bytes.
const maxForm = 64 << 10

// BodyForm returns the members of the body as a JSON list of abi.Pair, in their order. ok is false unless the body is a form
// (application/x-www-form-urlencoded). Like Body, it may end the run with a Restart.
func (c *Call) BodyForm() (pairs []byte, ok bool) {
	c.need(abi.UserBodyForm)
	c.needRequest(abi.UserBodyForm)
	if kind, _, err := mime.ParseMediaType(c.inputs.Request.Header.Get("Content-Type")); err != nil || kind != formType {
		return nil, false
	}
	if Encoded(c.inputs.Request.Header) {
		c.endf(StageBody, "the request's form cannot be read: it has a Content-Encoding")
	}
	body, err := c.openBody().Open()
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
	for member := range strings.SplitSeq(string(form), "&") {
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
	document, err := strictjson.Marshal(list)
	if err != nil {
		c.end(StageBody, err)
	}
	return document, true
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

// formType is the media type of HTML forms.
const formType = "application/x-www-form-urlencoded"

// reader is a reader that fails once ctx has ended.
type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
