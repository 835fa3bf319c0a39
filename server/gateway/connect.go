package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/transform"
)

// Connector is a definition that was checked and connected with a host. [NewConnector] makes one; the zero value is of no use. It is
// safe for concurrent use.
type Connector struct {
	definition Definition
	// upstream authenticates requests.
	upstream *host.Connector
	// base is the URL up to its first template.
	base *url.URL
	url  *host.Template
	// literal is the URL if it has no templates.
	literal *url.URL
	// own is the part of the URL's path that no template can change.
	own             string
	paths           []pattern
	headers         []parameter
	query           []parameter
	shapes          shapes
	responseHeaders namedHeaders
	host            *host.Host
	consents        consents
	// accountName is nil if nothing finds the name of an account.
	accountName *transform.Body
}

// Definition returns the definition with the defaults of Methods, Timeout and Limits, and with the name of the auth type in
// place of an alias. Its lists must not be modified.
func (c *Connector) Definition() Definition { return c.definition }

// Upstream returns the host's connector, which authenticates requests.
func (c *Connector) Upstream() *host.Connector { return c.upstream }

// Callback ends a consent that began with Upstream().BeginConsent, as [host.Host.Callback] does. One of another connector does not count.
func (c *Connector) Callback(ctx context.Context, back host.AuthorizationResponse) (host.EndedConsent, error) {
	return c.host.Callback(ctx, back, func(name string) *host.Connector {
		if name != c.definition.Permalink {
			return nil
		}
		return c.upstream
	})
}

// BaseURL returns the URL of the definition up to its first template.
func (c *Connector) BaseURL() *url.URL {
	base := *c.base
	return &base
}

// Secrets returns the names of the secrets in auth, tls, headers and query, sorted. They are like those of [host.Connector.Secrets].
func (c *Connector) Secrets() []string {
	return c.names(c.upstream.Secrets(), (*host.Template).Secrets)
}

// Variables returns the names of the variables in url, auth, tls, headers and query, sorted. They are like those of
// [host.Connector.Variables].
func (c *Connector) Variables() []string {
	return c.names(append(c.upstream.Variables(), c.url.Variables()...), (*host.Template).Variables)
}

// names adds what namesOf returns for the templates of headers and query to names, and returns them sorted.
func (c *Connector) names(names []string, namesOf func(*host.Template) []string) []string {
	for _, p := range slices.Concat(c.headers, c.query) {
		names = append(names, namesOf(p.value)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FieldSecrets returns the names of the secrets in each field of auth and tls, as [host.Connector.FieldSecrets] does, and in each header
// and query parameter, under headers.NAME and query.NAME.
func (c *Connector) FieldSecrets() map[string][]string {
	all := c.upstream.FieldSecrets()
	for where, parameters := range map[string][]parameter{"headers.": c.headers, "query.": c.query} {
		for _, p := range parameters {
			if secrets := p.value.Secrets(); len(secrets) > 0 {
				all[where+p.Name] = secrets
			}
		}
	}
	return all
}

// parameter is a Parameter with its compiled value.
type parameter struct {
	Parameter
	value *host.Template
}

// NewConnector checks a definition and connects it with a host. The error is a [host.ConfigError] with all problems, or [host.ErrClosed].
// The path of a problem names a member as in connectors.yaml, relative to the definition: url, headers[0].value, auth.config.token_url.
func NewConnector(ctx context.Context, h *host.Host, d Definition) (*Connector, error) {
	d.Patterns = cmp.Or(d.Patterns, &Patterns{})
	c := &Connector{definition: d, host: h}
	d.Permalink = cmp.Or(d.Permalink, Permalink(d.Name))
	c.definition.Permalink = d.Permalink
	l := &c.definition.Limits
	l.RequestBytes, l.ResponseBytes, l.Concurrent = cmp.Or(l.RequestBytes, 8<<20), cmp.Or(l.ResponseBytes, 8<<20), cmp.Or(l.Concurrent, 256)
	c.definition.Timeout, c.definition.Streams.Silence = cmp.Or(d.Timeout, 15*time.Second), cmp.Or(d.Streams.Silence, 10*time.Minute)
	if len(c.definition.Methods) == 0 {
		c.definition.Methods = []string{http.MethodGet}
	}
	k := &compiler{host: h, patterns: &d.Patterns.all, ownSecrets: len(d.Hosts) > 0 && !d.HostsShareSecrets}
	origin := k.url(c)
	k.methods(c.definition.Methods)
	for i, text := range d.Paths {
		p, err := parsePattern(text)
		if err != nil {
			k.Wrong(fmt.Sprintf("paths[%d]", i), "%v", err)
		}
		c.paths = append(c.paths, p)
	}
	c.headers = k.parameters("headers", d.Headers)
	c.query = k.parameters("query", d.Query)
	inURL := queryNames(d.URL)
	for i, p := range d.Query {
		if inURL[url.QueryEscape(p.Name)] {
			k.Wrong(fmt.Sprintf("query[%d].name", i), "is in the query of url, too: servers differ in which one counts")
		}
	}
	if d.Resend != "" && d.Resend != ResendNever {
		k.Wrong("resend", "is not %s: write that, or remove it", ResendNever)
	}
	c.shapes = k.shapes(d)
	c.responseHeaders = k.compileResponseHeaders(d.Response.Headers)
	k.compileAccount(c)
	k.limits(d.Limits)
	if d.Streams.Silence < 0 {
		k.Wrong("streams.silence", "is negative")
	}
	upstream, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name: d.Permalink, Origins: []string{origin}, Hosts: d.Hosts, HostsShareSecrets: d.HostsShareSecrets, Auth: d.Auth, TLS: d.TLS, Egress: d.Egress, Timeout: d.Timeout, RefreshAhead: d.RefreshAhead,
		BodyBytes: max(0, c.definition.Limits.RequestBytes), NeverResend: d.Resend == ResendNever,
	})
	return c.with(upstream, err, k.Problems)
}

// with returns the connector with upstream, the host's connector. If the host's err or problems has a problem, it returns an
// error with all of them.
func (c *Connector) with(upstream *host.Connector, err error, problems []problem.Problem) (*Connector, error) {
	wrong := &host.ConfigError{Connector: c.definition.Permalink}
	if err != nil && !errors.As(err, &wrong) {
		return nil, err
	}
	for i, p := range wrong.Problems {
		switch {
		case strings.HasPrefix(p.Path, "origins"):
			wrong.Problems[i].Path = "url" // the origin is a part of it
		case p.Path == "name" && c.definition.Permalink == "":
			wrong.Problems[i] = host.Problem{Path: "permalink", Message: "is empty, and so is what the name would make: set Name or Permalink"}
		case p.Path == "name":
			wrong.Problems[i].Path = "permalink"
		}
	}
	for _, p := range problems {
		wrong.Problems = append(wrong.Problems, host.Problem{Path: p.Path, Column: p.Column, Message: p.Message})
	}
	if len(wrong.Problems) > 0 {
		return nil, wrong
	}
	c.consents = upstreamConsents{upstream, c}
	c.upstream, c.definition.Auth = upstream, slices.Clone(c.definition.Auth)
	for i, auth := range upstream.Config().Auth {
		c.definition.Auth[i].Type = auth.Type // the name in place of an alias
	}
	return c, nil
}

// url compiles the URL of requests and returns its origin. If the URL is invalid, it returns a valid origin that does not
// exist, so that the host can report other problems.
func (k *compiler) url(c *Connector) (origin string) {
	base, err := c.definition.BaseURL()
	if err != nil {
		k.Wrong("url", "%v", err)
		return "https://unknown.invalid"
	}
	c.base, c.own = base, base.EscapedPath()
	if before, _, _ := strings.Cut(c.definition.URL, "{{"); !strings.Contains(before, "?") {
		c.own, _ = path.Split(c.own) // a template may continue the last segment
	}
	if c.url = k.template("url", c.definition.URL, "the request's URL would be in logs and at the caller"); c.url != nil {
		if _, literal := c.url.Literal(); literal {
			c.literal = base
		}
	}
	return base.Scheme + "://" + base.Host
}

// queryNames returns the names of the parameters in the query of a URL, encoded as in the URL. A definition may have thousands of names to
// look for.
func queryNames(text string) map[string]bool {
	_, query, _ := strings.Cut(text, "?")
	names := map[string]bool{}
	for parameter := range strings.SplitSeq(query, "&") {
		if name, _, ok := strings.Cut(parameter, "="); ok {
			names[name] = true
		}
	}
	return names
}

type compiler struct {
	problem.Collector
	host     *host.Host
	patterns *transform.Patterns
	// ownSecrets is set if all secrets must be those of a tenant or a user.
	ownSecrets bool
}

// template compiles a template. If whyNoSecret is not empty, a secret in the template is a problem for that reason. template
// returns nil if the template cannot be compiled.
func (k *compiler) template(path, source, whyNoSecret string) *host.Template {
	compiled, err := k.host.Template(source)
	if wrong, ok := errors.AsType[*host.ConfigError](err); ok { // Template returns no other error
		for _, p := range wrong.Problems {
			k.At(problem.Place{Column: p.Column}, path, "%s", p.Message)
		}
		return nil
	}
	if whyNoSecret != "" && len(compiled.Secrets()) > 0 {
		k.Wrong(path, "names a secret, and %s: put it into auth, headers or query", whyNoSecret)
	}
	return compiled
}

// methodNames are methods that are registered (RFC 9110 section 16.1) or in use.
var methodNames = []string{
	"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "QUERY", "ACL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE",
	"MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "PURGE", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNCHECKOUT",
	"UNLINK", "UNLOCK", "UPDATE", "LIST", "PULL", "PUSH", "SEND",
}

func (k *compiler) methods(methods []string) {
	names := map[string]bool{}
	for i, m := range methods {
		path := fmt.Sprintf("method[%d]", i)
		switch {
		case m == http.MethodConnect || m == http.MethodTrace:
			k.Wrong(path, "%s is never passed on", m)
		case m != strings.ToUpper(m) || !httpguts.ValidHeaderFieldName(m):
			k.Wrong(path, "is not a method: they are in capitals, as in GET")
		case !slices.Contains(methodNames, m):
			if suggestion, ok := problem.Nearest(m, methodNames); ok { // any other one may be the API's own
				k.Wrong(path, "there is no method %s; did you mean %q?", m, suggestion)
			}
		case names[m]:
			k.Wrong(path, "is there twice")
		}
		names[m] = true
	}
}

func (k *compiler) parameters(what string, all []Parameter) []parameter {
	var compiled []parameter
	names := map[string]bool{}
	for i, p := range all {
		path := fmt.Sprintf("%s[%d]", what, i)
		name := p.Name
		if what == "headers" {
			name = strings.ToLower(name) // CheckHeaderName refuses names that are not ASCII
			if wrong := contract.CheckHeaderName(p.Name); wrong != "" {
				k.Wrong(path+".name", "%s", wrong)
			}
			p.Name = http.CanonicalHeaderKey(p.Name)
		}
		if p.Name == "" {
			k.Wrong(path+".name", "is missing")
		}
		if names[name] {
			k.Wrong(path+".name", "is there twice")
		}
		names[name] = true
		value := k.template(path+".value", p.Value, "")
		if k.ownSecrets && value != nil && slices.ContainsFunc(value.Secrets(), func(name string) bool { return !expr.Owned(name) }) {
			k.Wrong(path+".value", "names a secret that is the same for all tenants, and one of hosts may be of strangers: write get_secret('NAME', 'tenant'), or set hosts_share_secrets")
		}
		switch {
		case !p.Overridable || value == nil:
		case len(value.Secrets()) > 0:
			k.Wrong(path+".overridable", "a caller may not replace a secret: leave it out")
		case value.Personal():
			k.Wrong(path+".overridable", "a caller may not say who the user is: leave it out")
		case what == "headers" && slices.Contains([]string{"Authorization", "Cookie", "Proxy-Authorization"}, p.Name):
			k.Wrong(path+".overridable", "a caller's own credentials are not passed on: leave it out")
		}
		compiled = append(compiled, parameter{p, value})
	}
	return compiled
}

func (k *compiler) limits(limits Limits) {
	for _, l := range []struct {
		name  string
		value float64
	}{
		{"per_user", limits.PerUser},
		{"total", limits.Total},
		{"request_bytes", float64(limits.RequestBytes)},
		{"response_bytes", float64(limits.ResponseBytes)},
		{"concurrent", float64(limits.Concurrent)},
	} {
		if l.value < 0 {
			k.Wrong("limits."+l.name, "is negative")
		}
	}
}

// pattern is a pattern of paths that callers may append. It has segments: * matches any segment, *%2F* matches one that may have encoded
// slashes, and ** at the end matches any rest.
type pattern []string

const withSlashes = "*%2F*"

func parsePattern(text string) (pattern, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("does not begin with a slash, as in /users/* or /**")
	}
	if strings.ContainsAny(strings.ReplaceAll(text, withSlashes, ""), "?#%\\{}") {
		return nil, fmt.Errorf("has a character that stands in no pattern: write segments as they are, with * for one, *%%2F* for one with encoded slashes in it, and ** at the end for all that follow")
	}
	if err := urlpath.Check(text); err != nil {
		return nil, err
	}
	p := pattern(strings.Split(text[1:], "/"))
	for i, segment := range p {
		if strings.Contains(segment, "*") && segment != "*" && segment != withSlashes && (segment != "**" || i < len(p)-1) {
			return nil, fmt.Errorf("has a * within a segment, or a ** before the end")
		}
	}
	return p, nil
}

// matches reports whether the pattern matches the decoded segments of a path.
func (p pattern) matches(segments []string) bool {
	for i, want := range p {
		switch {
		case want == "**":
			return true
		case i >= len(segments) || segments[i] == "" && (want != "" || i < len(p)-1):
			return false // only a pattern that itself ends with a slash has an empty segment
		case want == withSlashes:
			if slices.Contains(strings.Split(segments[i], "/"), "") {
				return false
			}
		case want != "*" && want != segments[i]:
			return false
		}
	}
	return len(p) == len(segments)
}
