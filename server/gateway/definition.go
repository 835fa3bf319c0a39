package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/transform"
)

// Definition is a connector as an operator writes it.
type Definition struct {
	Name      string    // for people
	Permalink string    // in the gateway's URLs, and the name of the host's connector
	URL       string    // https; templates in path and query only
	Auth      host.Auth // the only place for a credential of the API, beside the values of headers and query

	Methods []string    // that callers may use; none is GET alone
	Paths   []string    // patterns of what callers may append to the path of URL; none is nothing
	Headers []Parameter // that requests have; callers may set those that are overridable
	Query   []Parameter // that is appended to the query of URL; likewise

	Request  string   // a template of the request's body, see package transform; "" is the caller's body as it is
	Response Response // how the answer is shaped

	Timeout time.Duration // of the token exchange, and of each wait for the upstream; 0 is 15 seconds
	Limits  Limits

	// Patterns bounds the patterns of all definitions that name the same one; nil bounds those of this one.
	Patterns *Patterns
}

// Patterns counts what the patterns of matches take, in definitions that are served together. The zero value is ready for
// use. It is not safe for concurrent use.
type Patterns struct{ all transform.Patterns }

// Parameter is a header, or a parameter of the query.
type Parameter struct {
	Name        string
	Value       string // a template
	Overridable bool   // a caller may give another value; never for what says who the user is
}

// Response says how an answer is shaped.
type Response struct {
	Filter      string // an expression over each record: those for which it is false are left out
	Records     string // the member of the answer that has the records; "" when the answer is a list of them
	Body        string // an expression, or a template, over the answer; "" is its body as it is
	ContentType string // of what Body gives; "" is the upstream's
}

// Limits of a connector. Zero is the default, in brackets.
type Limits struct {
	PerUser       float64 // requests in a second, of each user [unlimited]
	Total         float64 // requests in a second, of all [unlimited]
	RequestBytes  int64   // of a caller's body, also when it is kept to be signed [8 MiB]
	ResponseBytes int64   // of a body that is shaped [8 MiB]
	Concurrent    int     // requests at once [256]
}

const defaultTimeout = 15 * time.Second

func (l Limits) withDefaults() Limits {
	if l.RequestBytes == 0 {
		l.RequestBytes = 8 << 20
	}
	if l.ResponseBytes == 0 {
		l.ResponseBytes = 8 << 20
	}
	if l.Concurrent == 0 {
		l.Concurrent = 256
	}
	return l
}

// Connector is a definition that can be run.
type Connector struct {
	Definition
	Upstream *host.Connector

	url     *host.Template
	literal *url.URL // of a url without templates
	paths   []pattern
	headers []parameter
	query   []parameter
	shapes  shapes
	host    *host.Host
}

// Secrets lists the names of the secrets that its requests have: in auth, headers and query.
func (c *Connector) Secrets() []string {
	names := c.Upstream.Secrets()
	for _, p := range slices.Concat(c.headers, c.query) {
		names = append(names, p.value.Secrets()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

type parameter struct {
	Parameter
	value *host.Template
}

// Compile checks a definition for a connector that the host has connected. The problems are all that there are; their paths
// begin at the definition: url, headers[0].value.
func Compile(h *host.Host, connected *host.Connector, d Definition) (*Connector, []host.Problem) {
	if d.Patterns == nil {
		d.Patterns = &Patterns{}
	}
	k := &compiler{host: h, patterns: &d.Patterns.all}
	c := &Connector{Definition: d, Upstream: connected, host: h}
	c.Limits = d.Limits.withDefaults()
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if len(c.Methods) == 0 {
		c.Methods = []string{http.MethodGet}
	}
	if connected != nil {
		bounded := *connected
		bounded.BodyBytes = c.Limits.RequestBytes
		c.Upstream = &bounded
	}
	c.url = k.template("url", d.URL, "the request's URL would be in logs and at the caller")
	if c.url != nil {
		if text, ok := c.url.Literal(); ok {
			var err error
			if c.literal, err = parseBase(text); err != nil {
				k.wrong("url", "is not a URL that requests can be sent to")
			}
		}
	}
	k.methods(c.Methods)
	for i, text := range d.Paths {
		p, err := parsePattern(text)
		if err != nil {
			k.wrong(fmt.Sprintf("paths[%d]", i), "%v", err)
		}
		c.paths = append(c.paths, p)
	}
	c.headers = k.parameters("headers", d.Headers)
	c.query = k.parameters("query", d.Query)
	inURL := queryNames(d.URL)
	for i, p := range d.Query {
		if inURL[url.QueryEscape(p.Name)] {
			k.wrong(fmt.Sprintf("query[%d].name", i), "is in the query of url, too: servers differ in which one counts")
		}
	}
	c.shapes = k.shapes(d)
	k.limits(d)
	if len(k.problems) > 0 {
		return nil, k.problems
	}
	return c, nil
}

// queryNames returns the names, as they are encoded, of what a URL has in its query.
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

// compiler collects what is wrong.
type compiler struct {
	host     *host.Host
	patterns *transform.Patterns
	problems []host.Problem
}

func (k *compiler) wrong(path, format string, args ...any) {
	k.problems = append(k.problems, host.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// template compiles a template. It may not name a secret when there is a reason why not.
func (k *compiler) template(path, source, whyNoSecret string) *host.Template {
	compiled, err := k.host.Template(source)
	if err != nil {
		for _, p := range problemsOf(err) {
			p.Path = path
			k.problems = append(k.problems, p)
		}
		return nil
	}
	if whyNoSecret != "" && len(compiled.Secrets()) > 0 {
		k.wrong(path, "names a secret, and %s: put it into auth, headers or query", whyNoSecret)
	}
	return compiled
}

func (k *compiler) methods(methods []string) {
	seen := map[string]bool{}
	for i, m := range methods {
		path := fmt.Sprintf("method[%d]", i)
		switch {
		case m == http.MethodConnect || m == http.MethodTrace:
			k.wrong(path, "%s is never passed on", m)
		case m != strings.ToUpper(m) || !httpguts.ValidHeaderFieldName(m):
			k.wrong(path, "is not a method: they are in capitals, as in GET")
		case seen[m]:
			k.wrong(path, "is there twice")
		}
		seen[m] = true
	}
}

// parameters checks and compiles headers or the query.
func (k *compiler) parameters(what string, all []Parameter) []parameter {
	var compiled []parameter
	seen := map[string]bool{}
	for i, p := range all {
		path := fmt.Sprintf("%s[%d]", what, i)
		name := p.Name
		if what == "headers" {
			name = strings.ToLower(name) // what is not ASCII is refused
			if problem := abi.CheckHeaderName(p.Name); problem != "" {
				k.wrong(path+".name", "%s", problem)
			}
			p.Name = http.CanonicalHeaderKey(p.Name)
		}
		if p.Name == "" {
			k.wrong(path+".name", "is missing")
		}
		if seen[name] {
			k.wrong(path+".name", "is there twice")
		}
		seen[name] = true
		value := k.template(path+".value", p.Value, "")
		switch {
		case !p.Overridable || value == nil:
		case len(value.Secrets()) > 0:
			k.wrong(path+".overridable", "a caller may not replace a secret: leave it out")
		case value.Personal():
			k.wrong(path+".overridable", "a caller may not say who the user is: leave it out")
		case what == "headers" && slices.Contains([]string{"Authorization", "Cookie", "Proxy-Authorization"}, p.Name):
			k.wrong(path+".overridable", "a caller's own credentials are not passed on: leave it out")
		}
		compiled = append(compiled, parameter{p, value})
	}
	return compiled
}

func (k *compiler) limits(d Definition) {
	if d.Timeout < 0 {
		k.wrong("timeout", "is negative")
	}
	for _, l := range []struct {
		name  string
		value float64
	}{
		{"per_user", d.Limits.PerUser},
		{"total", d.Limits.Total},
		{"request_bytes", float64(d.Limits.RequestBytes)},
		{"response_bytes", float64(d.Limits.ResponseBytes)},
		{"concurrent", float64(d.Limits.Concurrent)},
	} {
		if l.value < 0 {
			k.wrong("limits."+l.name, "is negative")
		}
	}
}

// pattern is the path that callers may append: segments, of which * stands for any one and a ** at the end for any rest.
type pattern []string

func parsePattern(text string) (pattern, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("does not begin with a slash, as in /users/* or /**")
	}
	if strings.ContainsAny(text, "?#%\\{}") {
		return nil, fmt.Errorf("has a character that stands in no pattern: write segments as they are, with * for one and ** at the end for all that follow")
	}
	if err := urlpath.Check(text); err != nil {
		return nil, err
	}
	p := pattern(strings.Split(text[1:], "/"))
	for i, segment := range p {
		if strings.Contains(segment, "*") && segment != "*" && (segment != "**" || i < len(p)-1) {
			return nil, fmt.Errorf("has a * within a segment, or a ** before the end")
		}
	}
	return p, nil
}

// matches reports whether a path, decoded, is one of the pattern's.
func (p pattern) matches(segments []string) bool {
	for i, want := range p {
		switch {
		case want == "**":
			return true
		case i >= len(segments) || segments[i] == "" || want != "*" && want != segments[i]:
			return false
		}
	}
	return len(p) == len(segments)
}
