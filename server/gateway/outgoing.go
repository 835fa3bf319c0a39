package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/internal/trial"
)

// outgoing is the request that a connector makes from an incoming one. It is not authenticated yet.
type outgoing struct {
	trial.Outgoing

	// pattern is the one of the definition's paths that allows the caller's. It is "" if the caller appended none, or if the
	// request is trusted.
	pattern string
	// credentials are the values of headers and query that contain secrets.
	credentials []host.Text
	// visibleHeader has the headers that expressions may use, which contain no secrets. It is nil if there are no expressions.
	visibleHeader http.Header
	// masked is the request with expressions in place of the secrets that they name. It is nil unless Masked of [trial.Incoming] is set.
	masked *trial.Outgoing
	// dropped has the names of the caller's query parameters that are not passed on, sorted: up to ten.
	dropped []string
}

func refuse(status int, format string, args ...any) error {
	return &trial.Refusal{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// outgoing implements [trial.NewOutgoing].
func (c *Connector) outgoing(ctx context.Context, in trial.Incoming) (*outgoing, error) {
	method := cmp.Or(in.Method, c.definition.Methods[0])
	if !in.Trusted && !slices.Contains(c.definition.Methods, method) && (method != http.MethodHead || !slices.Contains(c.definition.Methods, http.MethodGet)) {
		return nil, refuse(http.StatusMethodNotAllowed, "this connector takes %s", strings.Join(c.definition.Methods, ", "))
	}
	out := &outgoing{Outgoing: trial.Outgoing{Method: method, Header: http.Header{}}}
	if c.shapes != (shapes{}) {
		out.visibleHeader = http.Header{}
	}
	if in.Masked {
		out.masked = &trial.Outgoing{Method: method, Header: http.Header{}}
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
			out.set(name, []string{value}, []string{value}, true)
		}
	}
	for _, p := range c.headers {
		values, err := p.callerValues("header", in.Header[p.Name])
		if err != nil {
			return nil, err
		}
		if len(values) > 0 { // an empty value, too
			out.set(p.Name, slices.Clone(values), slices.Clone(values), true)
			continue
		}
		text, err := c.value(ctx, "header", p)
		switch {
		case err != nil:
			return nil, err
		case text.Value != "":
			out.set(p.Name, []string{text.Value}, []string{text.Masked}, !text.Secret)
			out.addCredential(text)
		case p.Name == "User-Agent":
			out.set(p.Name, nil, nil, false) // so that nobody adds one
		}
	}
	return out, nil
}

// addCredential adds text to the credentials if it contains a secret. No answer may contain a credential.
func (o *outgoing) addCredential(text host.Text) {
	if text.Secret {
		o.credentials = append(o.credentials, text)
	}
}

// set sets a header. visible reports whether expressions may use it.
func (o *outgoing) set(name string, values, masked []string, visible bool) {
	o.Header[name] = values
	if visible && o.visibleHeader != nil {
		o.visibleHeader[name] = values
	}
	if o.masked != nil {
		o.masked.Header[name] = masked
	}
}

// makeURL sets the URL of out: the definition's with the caller's path and the query parameters.
func (c *Connector) makeURL(ctx context.Context, in trial.Incoming, out *outgoing) error {
	base, err := c.renderURL(ctx)
	if err != nil {
		return err
	}
	if in.Path != "" {
		if out.pattern, err = c.allows(in); err != nil {
			return err
		}
		joinedURL, err := urlpath.Join(&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}, in.Path)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		joinedURL.RawQuery = base.RawQuery
		base = joinedURL
	}
	query, masked, err := c.makeQuery(ctx, base.RawQuery, in, out)
	if err != nil {
		return err
	}
	out.URL = withQuery(base, query)
	if out.masked != nil {
		out.masked.URL = withQuery(base, masked)
	}
	return nil
}

// renderURL renders the definition's URL. The caller must not modify the result.
func (c *Connector) renderURL(ctx context.Context) (*url.URL, error) {
	if c.literal != nil {
		return c.literal, nil
	}
	text, err := c.url.RenderURL(ctx)
	if errors.Is(err, urlcheck.ErrLabel) {
		return nil, refuse(http.StatusBadRequest, "%v", urlcheck.ErrLabel)
	}
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	base, err := parseURL(text.Value)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if urlpath.Emptied(c.definition.URL, text.Value) {
		return nil, refuse(http.StatusBadRequest, "a value that is part of the API's path is empty")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(base.EscapedPath(), c.own), "/") {
		if urlpath.EndsSegment(urlpath.Decode(segment)) {
			return nil, refuse(http.StatusBadRequest, "a value that is part of the API's path has a character that ends a segment of one")
		}
	}
	return base, nil
}

// allows returns the one of the definition's patterns that matches the caller's path, or an error if none does. It returns ""
// for a trusted request.
func (c *Connector) allows(in trial.Incoming) (string, error) {
	if in.Trusted {
		return "", nil
	}
	raw := strings.Split(strings.TrimPrefix(in.Path, "/"), "/")
	segments := make([]string, len(raw))
	for i, segment := range raw {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return "", refuse(http.StatusBadRequest, "the path has a %% that no two hexadecimal digits follow")
		}
		segments[i] = decoded
	}
	for i, p := range c.paths {
		if p.matches(segments) && !p.isAmbiguous(segments) {
			return c.definition.Paths[i], nil
		}
	}
	return "", refuse(http.StatusNotFound, "this connector has no such path")
}

// isAmbiguous reports whether a server may take a character of the segments, which match, for the end of one of them. Some servers do so with
// certain escaped characters, and so serve another path. Others take them for the end of the path: they cut off what the definition
// appends, and take the caller's text for a query.
func (p pattern) isAmbiguous(segments []string) bool {
	for i, segment := range segments {
		switch {
		case p[len(p)-1] == "**":
			// A server may take a backslash for a slash.
			if urlpath.AtSomeDepth(segment, func(s string) bool { return strings.ContainsAny(s, `\?#`) }) {
				return true
			}
			continue
		case p[i] == withSlashes: // not those that are encoded again
			segment = strings.ReplaceAll(segment, "/", "")
		}
		if urlpath.EndsSegment(segment) {
			return true
		}
	}
	return false
}

// callerValues returns the caller's values of a parameter, or nil if it is not overridable. It returns an error if there are several and the
// parameter is not repeated.
func (p parameter) callerValues(what string, values []string) ([]string, error) {
	switch {
	case !p.Overridable:
		return nil, nil
	case len(values) > 1 && !p.Repeated:
		return nil, refuse(http.StatusBadRequest, "the %s %s is there twice: the connector allows that with repeated: true", what, host.Printable(p.Name))
	}
	return values, nil
}

func (c *Connector) value(ctx context.Context, what string, p parameter) (host.Text, error) {
	text, err := p.value.Render(ctx)
	if err != nil {
		return host.Text{}, fmt.Errorf("%s %s: %w", what, p.Name, err)
	}
	if what == "header" && strings.ContainsFunc(text.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return host.Text{}, fmt.Errorf("%s %s: its value has a line break or another control character", what, p.Name)
	}
	return text, nil
}

// makeQuery returns the parts of the query of out, and the same masked. The first one is the query of the definition's URL.
func (c *Connector) makeQuery(ctx context.Context, first string, in trial.Incoming, out *outgoing) (query, masked []string, err error) {
	params, err := parseQuery(in.Query)
	if !in.Trusted {
		if err != nil {
			return nil, nil, refuse(http.StatusBadRequest, "the query is not well formed: write %%26 for an & and %%3B for a ; that is part of a value")
		}
		out.dropped = c.drops(params)
	}
	add := func(part, maskedPart string) {
		if part != "" {
			query, masked = append(query, part), append(masked, maskedPart)
		}
	}
	add(first, first)
	for _, p := range c.query {
		if in.Trusted && params[p.Name] != nil {
			if !p.Overridable {
				return nil, nil, refuse(http.StatusBadRequest, "the query parameter %s is the definition's", host.Printable(p.Name))
			}
			continue // the caller's query, which is appended as a whole, has it
		}
		callers, err := p.callerValues("query parameter", params[p.Name])
		if err != nil {
			return nil, nil, err
		}
		name := url.QueryEscape(p.Name)
		for _, value := range callers {
			add(name+value, name+value)
		}
		if len(callers) == 0 {
			text, err := c.value(ctx, "query parameter", p)
			if err != nil {
				return nil, nil, err
			}
			if text.Value == "" {
				continue
			}
			out.addCredential(text)
			add(name+"="+urlpath.Percent(text.Value), name+"="+text.Masked)
		}
		delete(params, p.Name)
	}
	if in.Trusted {
		add(in.Query, in.Query)
	} else if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, out.Method) {
		// Without a parameter, such a request may be another operation: DELETE /key?tagging of S3 removes tags, DELETE /key the object.
		for _, name := range slices.Sorted(maps.Keys(params)) {
			return nil, nil, refuse(http.StatusBadRequest, "the query parameter %s is not passed on, and %s may do something else without it: it passes if query of the connector has it with overridable: true",
				host.Printable(name), out.Method)
		}
	}
	return query, masked, nil
}

// parseQuery returns the parameters of a query by their names. It returns what follows each name, encoded anew: "" if no equals sign
// does. Like [url.ParseQuery], it goes on after a parameter that is not well formed, and returns an error.
func parseQuery(query string) (params map[string][]string, err error) {
	params = map[string][]string{}
	for part := range strings.SplitSeq(query, "&") {
		one, wrong := url.ParseQuery(part)
		err = cmp.Or(err, wrong)
		for name, values := range one {
			value := ""
			if strings.Contains(part, "=") {
				value = "=" + urlpath.Percent(values[0])
			}
			params[name] = append(params[name], value)
		}
	}
	return params, err
}

// drops returns the names of params, sorted and printable, that are no overridable parameters of the definition.
func (c *Connector) drops(params map[string][]string) []string {
	const maxDropped = 10 // parameters that operators are shown
	var names []string
	for name := range params {
		if !slices.ContainsFunc(c.query, func(p parameter) bool { return p.Overridable && p.Name == name }) {
			names = append(names, host.Printable(name))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxDropped)]
}

// withQuery returns base with a query made of these parts. It returns base itself if it has that query already, and otherwise a copy.
func withQuery(base *url.URL, query []string) *url.URL {
	text := strings.Join(query, "&")
	if text == base.RawQuery {
		return base
	}
	u := *base
	u.RawQuery = text
	return &u
}
