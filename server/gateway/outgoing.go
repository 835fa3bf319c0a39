package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlpath"
)

// Incoming is a caller's request to a connector.
type Incoming struct {
	Method string      // one of the definition's, or "" for its first
	Path   string      // as it was written, below the connector
	Query  string      // as it was written; only what is overridable passes
	Header http.Header // likewise; Accept and Content-Type pass
	// Trusted is set for an operator, whom the definition's paths and methods do not bind, and whose headers and query pass.
	Trusted bool
	// Masked has the request remember how a person may see it.
	Masked bool
}

// Outgoing is the request that a connector makes of it, before it is authenticated.
type Outgoing struct {
	Method string
	URL    *url.URL
	Header http.Header

	credentials []host.Text // that templates of headers and query gave
	// shown has the headers that expressions may know: none that is secret. It is nil if there are no expressions.
	shown  http.Header
	masked *Outgoing // nil unless it was asked for
}

// Masked is the request as a person may see it, if that was asked for: what came from a secret is the expression that it
// came from.
func (o *Outgoing) Masked() *Outgoing { return o.masked }

// Refusal is why a request of a caller is not made: nothing of it has been sent.
type Refusal struct {
	Status int
	Detail string // for the caller: nothing of any value
}

func (r *Refusal) Error() string { return r.Detail }

func refuse(status int, format string, args ...any) error {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

// Outgoing makes the request of a caller's, for the user of the context. Its error is a [Refusal] when it is the caller's
// fault.
func (c *Connector) Outgoing(ctx context.Context, in Incoming) (*Outgoing, error) {
	method := in.Method
	if method == "" {
		method = c.Methods[0]
	}
	if !in.Trusted && !slices.Contains(c.Methods, method) && (method != http.MethodHead || !slices.Contains(c.Methods, http.MethodGet)) {
		return nil, refuse(http.StatusMethodNotAllowed, "this connector takes %s", strings.Join(c.Methods, ", "))
	}
	out := &Outgoing{Method: method, Header: http.Header{}}
	if c.shapes != (shapes{}) {
		out.shown = http.Header{}
	}
	if in.Masked {
		out.masked = &Outgoing{Method: method, Header: http.Header{}}
	}
	if err := c.makeURL(ctx, in, out); err != nil {
		return nil, err
	}
	if in.Trusted {
		out.Header = in.Header.Clone()
		if in.Masked {
			out.masked.Header = in.Header.Clone()
		}
	}
	for _, name := range []string{"Accept", "Content-Type"} {
		if value := strings.Join(in.Header[name], ", "); value != "" { // RFC 9110 section 5.3
			out.set(name, host.Text{Value: value, Masked: value})
			out.show(name)
		}
	}
	for _, p := range c.headers {
		text, err := c.value(ctx, "header", p, in.Header[p.Name])
		if err != nil {
			return nil, err
		}
		if text.Value == "" {
			continue // as if it was not in the definition
		}
		out.set(p.Name, text)
		out.holds(text)
		if !text.Secret {
			out.show(p.Name)
		}
	}
	return out, nil
}

// holds takes note of a text with a secret, which no answer may hold.
func (o *Outgoing) holds(text host.Text) {
	if text.Secret {
		o.credentials = append(o.credentials, text)
	}
}

// show lets expressions know a header.
func (o *Outgoing) show(name string) {
	if o.shown != nil {
		o.shown[name] = o.Header[name]
	}
}

func (o *Outgoing) set(name string, text host.Text) {
	o.Header[name] = []string{text.Value}
	if o.masked != nil {
		o.masked.Header[name] = []string{text.Masked}
	}
}

// makeURL renders the URL, and appends what the caller may say.
func (c *Connector) makeURL(ctx context.Context, in Incoming, out *Outgoing) error {
	base, err := c.base(ctx)
	if err != nil {
		return err
	}
	if in.Path != "" {
		if err := c.allows(in); err != nil {
			return err
		}
		joined, err := urlpath.Join(&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}, in.Path)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		joined.RawQuery = base.RawQuery
		base = joined
	}
	given, err := url.Values(nil), error(nil)
	if in.Query != "" {
		given, err = url.ParseQuery(in.Query)
	}
	if err != nil && !in.Trusted {
		return refuse(http.StatusBadRequest, "the query is not well formed: write %%26 for an & and %%3B for a ; that is part of a value")
	}
	var query, masked []string
	if base.RawQuery != "" {
		query, masked = append(query, base.RawQuery), append(masked, base.RawQuery)
	}
	for _, p := range c.query {
		if in.Trusted && given.Has(p.Name) {
			if !p.Overridable {
				return refuse(http.StatusBadRequest, "the query parameter %s is the definition's", host.Printable(p.Name))
			}
			continue // it is in what the caller wrote
		}
		text, err := c.value(ctx, "query parameter", p, given[p.Name])
		if err != nil {
			return err
		}
		if text.Value == "" {
			continue
		}
		out.holds(text)
		name := url.QueryEscape(p.Name) + "="
		query, masked = append(query, name+escape(text.Value)), append(masked, name+text.Masked)
	}
	if in.Trusted && in.Query != "" {
		query, masked = append(query, in.Query), append(masked, in.Query)
	}
	out.URL = withQuery(base, query)
	if out.masked != nil {
		out.masked.URL = withQuery(base, masked)
	}
	return nil
}

// withQuery returns base if it has that query already, or else a copy of base.
func withQuery(base *url.URL, query []string) *url.URL {
	text := strings.Join(query, "&")
	if text == base.RawQuery {
		return base
	}
	u := *base
	u.RawQuery = text
	return &u
}

// base is the definition's URL, which must not be changed.
func (c *Connector) base(ctx context.Context) (*url.URL, error) {
	if c.literal != nil {
		return c.literal, nil
	}
	text, err := c.url.RenderURL(ctx)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	base, err := parseURL(text.Value)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(base.EscapedPath(), c.own), "/") {
		if endsSegment(urlpath.Decode(segment)) {
			return nil, refuse(http.StatusBadRequest, "a value that is part of the API's path has a character that ends a segment of one")
		}
	}
	return base, nil
}

// allows reports whether the definition has a pattern for the caller's path.
func (c *Connector) allows(in Incoming) error {
	if in.Trusted {
		return nil
	}
	raw := strings.Split(strings.TrimPrefix(in.Path, "/"), "/")
	segments := make([]string, len(raw))
	for i, segment := range raw {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return refuse(http.StatusBadRequest, "the path has a %% that no two hexadecimal digits follow")
		}
		segments[i] = decoded
	}
	for _, p := range c.paths {
		if !p.matches(segments) {
			continue
		}
		// Some servers take what is escaped here for the end of a segment, and the path for another one. Some take it for the
		// end of the path: then what the definition appends is cut off, and what the caller wrote is a query.
		ends := endsSegment
		if p[len(p)-1] == "**" {
			ends = endsPath
		}
		if !slices.ContainsFunc(segments, ends) {
			return nil
		}
	}
	return refuse(http.StatusNotFound, "this connector has no such path")
}

// endsSegment reports whether a segment, decoded however often, has what a server may take for its end.
func endsSegment(segment string) bool {
	return atSomeDepth(segment, func(s string) bool { return strings.ContainsAny(s, `/\;?#`) || !utf8.ValidString(s) })
}

// endsPath reports whether a segment, decoded however often, has what a server may take for the end of the path, or for
// another way to write a slash.
func endsPath(segment string) bool {
	return atSomeDepth(segment, func(s string) bool { return strings.ContainsAny(s, `\?#`) })
}

// atSomeDepth reports whether something holds for a segment, or for what it decodes to. The result is true for a segment
// that is encoded more than urlpath.Decodings times.
func atSomeDepth(segment string, holds func(string) bool) bool {
	for range urlpath.Decodings {
		if holds(segment) {
			return true
		}
		decoded := urlpath.Decode(segment)
		if decoded == segment {
			return false
		}
		segment = decoded
	}
	return true
}

// value renders a parameter, or takes the caller's value where it may.
func (c *Connector) value(ctx context.Context, what string, p parameter, given []string) (host.Text, error) {
	if p.Overridable && len(given) > 0 {
		if len(given) > 1 {
			return host.Text{}, refuse(http.StatusBadRequest, "the %s %s is there twice", what, host.Printable(p.Name))
		}
		return host.Text{Value: given[0], Masked: given[0]}, nil
	}
	text, err := p.value.Render(ctx)
	if err != nil {
		return host.Text{}, fmt.Errorf("%s %s: %w", what, p.Name, err)
	}
	if what == "header" && strings.ContainsFunc(text.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return host.Text{}, fmt.Errorf("%s %s: its value has a line break or another control character", what, p.Name)
	}
	return text, nil
}

func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
