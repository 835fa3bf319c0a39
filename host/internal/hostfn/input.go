package hostfn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// Input returns the outgoing request as an abi.Request in JSON, or nil if there is none. After Input, the call can
// neither store nor send anything, so that nothing of one request reaches another (threats.md 15c).
func (c *Call) Input() []byte {
	if c.mode == Describing || c.mode == Validating || c.inputs.Request == nil {
		return nil
	}
	c.inputRead, c.uncacheable = true, true
	if c.Lease != nil { // nothing can be stored from here on, and the outcome of the call may depend on this request
		c.Lease.End(nil)
	}
	r := c.inputs.Request
	target := *r.URL
	target.User = nil
	sealed := sealer{c, c.secretForms(), map[string]string{}}
	request := abi.Request{Method: r.Method, URL: sealed.text(target.String()), Headers: []abi.Pair{}}
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
			request.Headers = append(request.Headers, abi.Pair{Name: sealed.text(name), Value: sealed.text(value)})
		}
	}
	request.BodySHA256 = c.bodyDigest(r)
	document, err := strictjson.Marshal(request)
	if err != nil {
		c.endf(StagePlugin, "the request cannot be given to the plugin: %w", err)
	}
	return document
}

// sealer replaces the call's secrets in the texts of a request by references. The platform may have put secrets there.
type sealer struct {
	call  *Call
	forms []string
	// references maps each form that has been found to its reference, so that each has only one.
	references map[string]string
}

// text returns text with the forms of secrets replaced by references.
func (s *sealer) text(text string) string {
	var pairs []string
	for _, form := range s.forms {
		if len(form) < scrubbable || !strings.Contains(text, form) { // sealing a short one would confirm a user's guess
			continue
		}
		if s.references[form] == "" {
			s.references[form] = s.call.seal(seal.Value{Text: form, Sinks: seal.Header | seal.Query})
		}
		pairs = append(pairs, form, s.references[form])
	}
	if pairs == nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// bodyDigest returns the SHA-256 of the body in hex. A body that can be read only once ends the run with a Restart. The
// host then reads and keeps it outside of the sandbox, so that a slow sender does not occupy a guest. When a request is
// explained, such a body is not read, and the digest is "".
func (c *Call) bodyDigest(r *http.Request) string {
	hash := sha256.New()
	switch {
	case c.inputs.BodySHA256 != "":
		return c.inputs.BodySHA256
	case r.Body == nil || r.Body == http.NoBody:
	case r.GetBody == nil && c.mode == Explaining:
		return ""
	case r.GetBody == nil:
		c.restart = &Restart{Body: true}
		panic(ended{})
	default:
		ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
		defer cancel()
		body, err := r.GetBody()
		if err != nil {
			c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
		}
		defer body.Close()
		if _, err := io.Copy(hash, reader{ctx, body}); err != nil {
			c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

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
