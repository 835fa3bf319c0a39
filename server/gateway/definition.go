package gateway

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/gateway/internal/transform"
)

// Definition describes a connector as an operator writes it. [NewConnector] makes a [Connector] from it. It does not decode from
// JSON or YAML itself: package connectors reads files, and refuses unknown members. The struct tags are for that package.
type Definition struct {
	codeOnly `yaml:"-"`

	// Name is the name for people. Without a Permalink, the permalink is made of it.
	Name string `file:",required"`
	// Permalink is the name in URLs of the gateway, /connectors/PERMALINK: a to z, 0 to 9 and hyphens.
	//
	// It is also the name of the host's connector, to which cached tokens belong. Empty means [Permalink] of Name.
	Permalink string `file:",permalink"`
	// URL is the https URL of the API. Its path and query may have templates. With hosts, a label of its host may be
	// {{ tenant_id }} or {{ get_variable('NAME', 'tenant') }}.
	URL string `file:",required,url"`
	// Hosts bounds all hosts of the connector that are not literal: in url, in URLs of auth, and those that an answer names.
	// It has names such as eu.example.com, and *.example.com, where the star stands for one label.
	Hosts []string `file:",hosts"`
	// HostsShareSecrets allows secrets that are the same for all tenants beside a host that the tenant chooses, or below a
	// domain where everybody can get a name, such as myshopify.com.
	HostsShareSecrets bool `default:"false"`
	// Methods are the methods that callers may use, in capitals: one, or a list. With GET, HEAD is allowed too.
	//
	// CONNECT and TRACE are invalid. Empty means GET.
	Methods []string `file:"method,method" default:"GET"`
	// Paths are patterns of the paths that callers may append to the path of the URL, such as /users/* or /open/**. * is any one segment,
	// *%2F* one that may have encoded slashes, and ** at the end any rest. Without patterns, callers append nothing.
	Paths []string `file:",route"`
	// Headers are headers of the request. Of a caller's headers, only Accept and Content-Type pass, and those that are overridable here.
	Headers []Parameter
	// Query has parameters that are appended to the query of the URL. Of a caller's parameters, only those pass that are overridable here.
	Query []Parameter
	// Auth is the auth type of the API and its configuration, or a list of up to four that run in order. The type none is for an API that
	// asks nothing.
	//
	// Only Auth, TLS and the values of Headers and Query may name secrets.
	Auth host.Auths
	// TLS has a client certificate, and the authorities that servers are verified with.
	//
	// If it is nil, those of the host's Egress apply. It needs the host's transport: if Base of the [Config] is set, and TLS
	// is for the API, each request fails.
	TLS *host.TLS
	// Egress limits where the connector connects to. If it is nil, that of the host does. It needs the host's transport: if Base of
	// the [Config] is set, each request fails.
	Egress *host.Egress `file:"-"`

	// Consent says what users see of an account that they connect. It is for auth types that need consent.
	Consent ConnectorConsent

	// Request is a template of the request's body, with user, tenant_id, request and body_text. Quote its values:
	// {{ json_encode(body_text) }}. Without it, the caller's body is sent.
	Request string
	// Response shapes the answer.
	Response Response

	// Timeout limits the token exchange, each wait for the API, the wait until a body may be shaped, and shaping it, each
	// for itself. Without it, 15 seconds.
	Timeout time.Duration `default:"15s"`
	// RefreshAhead is the time before the end of a cached token at which it is replaced, while requests go on with it, such
	// as 2m. Without it, the first request after its end gets the next one.
	//
	// [host.ConnectorConfig] has the details.
	RefreshAhead time.Duration
	// Resend says what becomes of a refresh token that was sent without an answer that says whether it was redeemed.
	// Without it, a later request sends it again.
	//
	// It is [ResendNever], or empty.
	Resend string
	// Limits are limits of the use of this connector. Each process counts for itself.
	Limits Limits
	// Streams configures answers that are streams of events, text/event-stream.
	Streams Streams

	// Patterns limits the patterns of all definitions that share it. If it is nil, the limit applies to this definition alone.
	Patterns *Patterns `file:"-"`
}

// ResendNever is the value of Resend with which a token that may be used once is not sent again: [host.ConnectorConfig].NeverResend.
const ResendNever = "never"

// Patterns limits the total size of the patterns of matches in definitions that are served together. The zero value is
// ready for use. It is not safe for concurrent use.
type Patterns struct{ all transform.Patterns }

// Parameter is a header or a query parameter.
type Parameter struct {
	// Name is the name of the header or query parameter.
	Name string `file:",required"`
	// Value is a template. If its result is empty, nothing is sent. An empty value of a caller is.
	Value string `file:",required,blank,closed"`
	// Overridable reports whether a caller may replace the value. It is for values without a secret and without the user,
	// and not for headers with credentials: Authorization, Cookie and Proxy-Authorization.
	Overridable bool `default:"false"`
	// Repeated reports whether a caller may send an overridable one several times. The API gets all of them, in their order.
	Repeated bool `default:"false"`
}

// Response configures how an answer is shaped. The expressions are in the language of docs/gateway.md.
type Response struct {
	codeOnly `yaml:"-"`

	// Filter is an expression over each record. Records for which it is not true are left out.
	Filter string
	// Records is the member of the answer that has the records. Without it, the answer is a list of records.
	Records string
	// Body is an expression or a template over response.body, response.status_code and response.headers, which makes the
	// body for the caller. Without it, the body stays as it is.
	Body string
	// ContentType is the Content-Type of the body that response.body makes, such as text/html; charset=utf-8. Without it,
	// the type is application/json for an expression whose value is not text, and otherwise the API's.
	ContentType string `file:",mediatype"`
	// Headers are further headers of answers that callers get, and that pages of other origins may read, such as X-RateLimit-*. A * at the
	// end is any rest of a name. Those for one connection, of credentials, of pages and for proxies never pass.
	Headers []string `file:",header"`
}

// Streams is about answers of the type text/event-stream (HTML Living Standard, section 9.2).
type Streams struct {
	// Silence is the maximum time between two pieces of a stream, in place of timeout. Without it, 10 minutes.
	Silence time.Duration `default:"10m"`
}

// Limits limits the use of a connector. A field that is 0 has its default; a negative one is invalid. For PerUser and Total,
// the requests of a second, or one if that is less, may come at once.
type Limits struct {
	codeOnly `yaml:"-"`

	// PerUser is the maximum number of requests per second of one user. All requests without a user count as one user's.
	PerUser float64
	// Total is the maximum number of requests per second of all users together.
	Total float64
	// RequestBytes is the maximum size of a caller's body, also of one that is kept to be signed. The default is 8 MiB.
	RequestBytes int64 `default:"8388608"`
	// ResponseBytes is the maximum size of an answer's body that is shaped. The default is 8 MiB.
	ResponseBytes int64 `default:"8388608"`
	// Concurrent is the maximum number of concurrent requests, of which one user may have a quarter, but at least one.
	Concurrent int `default:"256"`
}

var errNoFormat = errors.New("it is not decoded from a file, where a misspelt limit would be no limit: package connectors reads definitions")

// codeOnly is embedded in structs that only code fills, and no decoder. Its tag lets encoders pass it over.
type codeOnly struct{}

// UnmarshalJSON returns an error. Package connectors reads definitions.
func (*codeOnly) UnmarshalJSON([]byte) error { return errNoFormat }

// UnmarshalYAML returns an error. Package connectors reads definitions.
func (*codeOnly) UnmarshalYAML(func(any) error) error { return errNoFormat }

// baseURL is the rule for the URL of a definition. It allows plain http, because the host refuses that unless its Egress allows it.
var baseURL = urlcheck.Rule{AllowHTTP: true, Credentials: "put the credential into auth", Example: "https://api.example.com/v1"}

// BaseURL returns the definition's URL up to its first template behind the host. All requests go to its scheme, host and port; a star in
// the host stands for a template. BaseURL allows plain http; the host checks that. It returns an error if the URL is invalid.
func (d *Definition) BaseURL() (*url.URL, error) {
	text, open := urlcheck.HostPattern(d.URL)
	literal, rest, templates := strings.Cut(text, "{{")
	if open && len(d.Hosts) == 0 || templates && !open && !urlcheck.FixedHost(d.URL) {
		return nil, errors.New("has a template in its scheme or host: these are literal, since they decide who gets the credential, or with hosts " +
			"a label of the host is tenant_id or get_variable('NAME', 'tenant')")
	}
	if strings.Contains(rest[strings.LastIndex(rest, "}}")+1:], "#") {
		literal += "#" // so that a fragment behind the templates is found too
	}
	u, err := parseURL(literal)
	if err == nil && !open && strings.Contains(u.Host, "*") {
		return nil, errors.New("has a star in its host: write {{ tenant_id }} or {{ get_variable('NAME', 'tenant') }} there, as the label that is the tenant's")
	}
	return u, err
}

// parseURL parses a URL without changing its path. If a path has a character that must be encoded, [url.URL.EscapedPath]
// encodes the decoded path anew, and an encoded slash becomes a slash. parseURL encodes such characters instead.
func parseURL(text string) (*url.URL, error) {
	u, err := baseURL.Parse(text)
	if err != nil {
		return nil, err
	}
	u.RawPath = urlpath.Encode(u.RawPath) // RawPath is "" if the default encoding of Path is the text
	return u, urlpath.Check(u.EscapedPath())
}

var accents, noPermalink = regexp.MustCompile(`\p{Mn}+`), regexp.MustCompile(`[^a-z0-9]+`)

// Permalink returns the permalink for a connector's name: in lower case, without accents, with a hyphen in place of each run
// of other characters, and at most 64 bytes long. It is empty if the name has no letter a to z and no digit.
func Permalink(name string) string {
	const longest = 1024 // longer names are invalid anyway
	plain := strings.ToLower(accents.ReplaceAllString(norm.NFKD.String(name[:min(len(name), longest)]), ""))
	permalink := strings.Trim(noPermalink.ReplaceAllString(plain, "-"), "-")
	return strings.TrimRight(permalink[:min(len(permalink), 64)], "-")
}
