package hostfn

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Authorization is the output of consent.
type Authorization struct {
	// URL is the authorization endpoint with the plugin's parameters.
	URL         *url.URL
	Issuer      string
	IssRequired bool
	// CodeParameter is the name of the parameter that has the code when the browser comes back.
	CodeParameter string
	// NoPKCE reports whether there is no code_challenge.
	NoPKCE bool
}

// Authorization checks the output of consent. The URL is one of the configuration, and there is no sealed value in what the
// browser sees.
func (c *Call) Authorization(output []byte) (a Authorization, failure *Failure) {
	failure = c.try(func() { a = c.authorization(output) })
	return a, failure
}

func (c *Call) authorization(output []byte) Authorization {
	var r contract.ConsentRequest
	c.unmarshal(output, "the output of consent", &r)
	for _, text := range append(texts(r.Query), r.URL, r.Issuer, r.CodeParameter) {
		if c.sealed.Plain(text) != nil {
			c.end(StageConfig, &ShownError{c.fieldIn(text)})
		}
	}
	c.readURLs()
	u, err := url.Parse(r.URL)
	if err != nil || !slices.Contains(c.urls, r.URL) {
		c.endf(StagePlugin, "consent may only go to a URL that is a field of the configuration, as config_get returned it in this call")
	}
	own, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		c.endf(StageConfig, "the authorization URL has a query that is malformed")
	}
	var names []string
	for _, pair := range r.Query {
		names = append(names, pair.Name)
	}
	for _, name := range slices.AppendSeq(names, maps.Keys(own)) {
		read := strings.ToLower(urlcheck.MemberName(url.QueryEscape(name)))
		read, _, _ = strings.Cut(read, "[")
		if read == "" || slices.Contains(contract.ConsentParameters, read) || slices.Contains(requestObjects, read) {
			c.endf(StageConfig, "the authorization request has the parameter %q, which the host sets or does not allow", printable.Text(name, 64))
		}
	}
	if r.IssRequired && r.Issuer == "" {
		c.endf(StagePlugin, "the output of consent has iss_required without an issuer")
	}
	code := cmp.Or(r.CodeParameter, "code")
	if slices.Contains(answerParameters, code) || len(code) > maxCodeParameter {
		c.endf(StageConfig, "the code may not come in the parameter %q: name that of the authorization server's answer", printable.Text(code, maxCodeParameter))
	}
	if u.RawQuery != "" && len(r.Query) > 0 {
		u.RawQuery += "&"
	}
	u.RawQuery += c.encoded(&wire{function: contract.ExportConsent}, "query", r.Query)
	return Authorization{URL: u, Issuer: r.Issuer, IssRequired: r.IssRequired, CodeParameter: code, NoPKCE: r.NoPKCE}
}

// requestObjects lists the parameters beside which a server ignores those of the host (RFC 9101, OpenID Connect Core section 6).
var requestObjects = []string{"request", "request_uri", "registration"}

// ShownError means that a browser would see a secret.
type ShownError struct {
	// Field is the field that has the secret, or "" if no field as a whole is in the authorization request.
	Field string
}

func (e *ShownError) Error() string {
	return "a secret is in the authorization request, which a browser sends: use a variable in place of the secret"
}

// answerParameters lists the parameters of an authorization response that are no code (RFC 6749 section 4.1.2, RFC 9207).
var answerParameters = []string{"state", "iss", "error", "error_description", "error_uri"}

// maxCodeParameter limits the name of the parameter that has the code, in bytes.
const maxCodeParameter = 64
