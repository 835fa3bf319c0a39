package gateway

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/transform"
)

// Definition is a connector as an operator writes it. [Connect] makes a [Connector] of it. It is no format of a file:
// package connectors reads files, in YAML or JSON, and refuses what it does not know. The tags are for it.
type Definition struct {
	// Name is for people.
	Name string `file:",required"`
	// Permalink stands in the gateway's URLs. It is the name of the host's connector, which tokens belong to.
	Permalink string
	// URL is where requests go: https, with templates in path and query only.
	URL string `file:",required"`
	// Methods are those that callers may use. None is GET alone.
	Methods []string `file:"method"`
	// Paths are patterns of what callers may append to the path of URL: segments, with * for any one, and ** at the end for
	// any rest. None is nothing.
	Paths []string
	// Headers are those that requests have. Callers may set those that are overridable.
	Headers []Parameter
	// Query is appended to the query of URL. Callers may set what is overridable.
	Query []Parameter
	// Auth says how requests are authenticated. Beside it, only values of Headers and Query may have a credential of the API.
	Auth host.Auth

	// Request is a template of the request's body, in the language of docs/gateway.md. "" is the caller's body as it is.
	Request string
	// Response says how the answer is shaped.
	Response Response

	// Timeout bounds the token exchange, and each wait for the API. 0 is 15 seconds.
	Timeout time.Duration
	// Limits bound what callers may use.
	Limits Limits

	// Patterns bounds the patterns of all definitions that name the same one. Nil bounds those of this one.
	Patterns *Patterns `file:"-"`
}

// Patterns counts what the patterns of matches take, in definitions that are served together. The zero value is ready for
// use. It is not safe for concurrent use.
type Patterns struct{ all transform.Patterns }

// Parameter is a header, or a parameter of the query.
type Parameter struct {
	// Name is that of the header or parameter.
	Name string `file:",required"`
	// Value is a template.
	Value string `file:",required,blank"`
	// Overridable reports whether a caller may give another value: never for what says who the user is.
	Overridable bool
}

// Response says how an answer is shaped.
type Response struct {
	// Filter is an expression over each record. Those for which it is false are left out. "" is all.
	Filter string
	// Records is the member of the answer that has the records. "" means that the answer is a list of them.
	Records string
	// Body is an expression, or a template, over the answer. "" is its body as it is.
	Body string
	// ContentType is that of what Body returns. "" is the API's.
	ContentType string
}

// Limits of a connector. Zero is the default.
type Limits struct {
	// PerUser is how many requests a second each user may send. The default is unlimited.
	PerUser float64
	// Total is how many requests a second all users may send together. The default is unlimited.
	Total float64
	// RequestBytes bounds a caller's body, also when it is kept to be signed. The default is 8 MiB.
	RequestBytes int64
	// ResponseBytes bounds a body that is shaped. The default is 8 MiB.
	ResponseBytes int64
	// Concurrent is how many requests may be under way. The default is 256.
	Concurrent int
}

var errNoFormat = errors.New("it is not decoded from a file, where a misspelt limit would be no limit: package connectors reads definitions")

// UnmarshalJSON fails. Package connectors reads definitions.
func (*Definition) UnmarshalJSON([]byte) error { return errNoFormat }

// UnmarshalYAML fails. Package connectors reads definitions.
func (*Definition) UnmarshalYAML(func(any) error) error { return errNoFormat }

// UnmarshalJSON fails. Package connectors reads definitions.
func (*Response) UnmarshalJSON([]byte) error { return errNoFormat }

// UnmarshalYAML fails. Package connectors reads definitions.
func (*Response) UnmarshalYAML(func(any) error) error { return errNoFormat }

// UnmarshalJSON fails. Package connectors reads definitions.
func (*Limits) UnmarshalJSON([]byte) error { return errNoFormat }

// UnmarshalYAML fails. Package connectors reads definitions.
func (*Limits) UnmarshalYAML(func(any) error) error { return errNoFormat }

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

// baseURL is the rule for the URL of a definition. Plain http is for the host to refuse.
var baseURL = urlcheck.Rule{AllowHTTP: true, Credentials: "put the credential into auth", Example: "https://api.example.com/v1"}

// BaseURL returns the definition's URL, up to its first template. All requests go to its scheme, host and port. Whether they may
// be plain http is for the host to say. The error says what is wrong with the URL.
func (d *Definition) BaseURL() (*url.URL, error) {
	literal, rest, templates := strings.Cut(d.URL, "{{")
	if templates && !urlcheck.FixedHost(d.URL) {
		return nil, errors.New("has a template in its scheme or host: these are literal, since they decide who gets the credential")
	}
	if strings.Contains(rest[strings.LastIndex(rest, "}}")+1:], "#") {
		literal += "#" // it is behind the templates
	}
	return parseURL(literal)
}

// parseURL parses a URL whose path stays as it is written. [url.Parse] decodes and encodes a path that has a character
// which has to be encoded, and what was an encoded slash is one then.
func parseURL(text string) (*url.URL, error) {
	u, err := baseURL.Parse(text)
	if err != nil {
		return nil, err
	}
	u.RawPath = urlpath.Encode(u.RawPath) // "" when there is no need for it
	return u, urlpath.Check(u.EscapedPath())
}
