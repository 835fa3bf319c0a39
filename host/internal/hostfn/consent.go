package hostfn

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Authorization is the output of consent.
type Authorization struct {
	// Endpoint is the authorization endpoint, and URL where the browser goes.
	Endpoint    *url.URL
	URL         string
	Issuer      string
	IssRequired bool
	// CodeParameter is the name of the parameter that has the code when the browser comes back.
	CodeParameter string
	// NoPKCE reports whether there is no code_challenge.
	NoPKCE bool
}

// Consent has the parameters that the host adds to an authorization request.
type Consent struct{ RedirectURI, State, Nonce, Verifier string }

// parameters returns the parameters of an authorization request that the host alone sets, in the order of their names.
func (o *Consent) parameters(noPKCE bool) (own []abi.Pair) {
	if !noPKCE {
		challenge := sha256.Sum256([]byte(o.Verifier))
		own = []abi.Pair{{Name: "code_challenge", Value: base64.RawURLEncoding.EncodeToString(challenge[:])}, {Name: "code_challenge_method", Value: "S256"}}
	}
	return append(own, []abi.Pair{
		{Name: "nonce", Value: o.Nonce},
		{Name: "redirect_uri", Value: o.RedirectURI},
		{Name: "response_type", Value: "code"},
		{Name: "state", Value: o.State},
	}...)
}

// Authorization checks the output of consent, and adds what is the host's. The URL is one of the configuration, and there is no sealed
// value in what the browser sees. A request that is pushed is sent, unless the call is explained.
func (c *Call) Authorization(output []byte, own Consent) (a Authorization, failure *Failure) {
	failure = c.try(func() { a = c.authorization(output, own) })
	return a, failure
}

func (c *Call) authorization(output []byte, own Consent) Authorization {
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
	c.checkParameters(u.RawQuery, r.Query)
	if r.IssRequired && r.Issuer == "" {
		c.endf(StagePlugin, "the output of consent has iss_required without an issuer")
	}
	code := cmp.Or(r.CodeParameter, "code")
	if slices.Contains(answerParameters, code) || len(code) > maxCodeParameter {
		c.endf(StageConfig, "the code may not come in the parameter %q: name that of the authorization server's answer", printable.Text(code, maxCodeParameter))
	}
	a := Authorization{Endpoint: u, Issuer: r.Issuer, IssRequired: r.IssRequired, CodeParameter: code, NoPKCE: r.NoPKCE}
	request := append(slices.Clip(r.Query), own.parameters(r.NoPKCE)...)
	if r.Push != nil {
		request = c.push(r.Push, request)
	}
	browser := *u
	browser.RawQuery = joinMembers(browser.RawQuery, c.encoded(&wire{function: contract.ExportConsent}, "query", request))
	a.URL = browser.String()
	return a
}

// checkParameters ends the call if a query of the configuration, or a parameter of the guest, is one that the host sets or does not allow.
func (c *Call) checkParameters(query string, parameters []abi.Pair) {
	own, err := url.ParseQuery(query)
	if err != nil {
		c.endf(StageConfig, "the authorization URL has a query that is malformed")
	}
	names := slices.Collect(maps.Keys(own))
	for _, pair := range parameters {
		names = append(names, pair.Name)
	}
	for _, name := range names {
		read := strings.ToLower(urlcheck.MemberName(url.QueryEscape(name)))
		read, _, _ = strings.Cut(read, "[")
		if read == "" || slices.Contains(contract.ConsentParameters, read) || slices.Contains(requestObjects, read) {
			c.endf(StageConfig, "the authorization request has the parameter %q, which the host sets or does not allow", printable.Text(name, 64))
		}
	}
}

// requestObjects lists the parameters beside which a server ignores those of the host (RFC 9101, OpenID Connect Core section 6).
var requestObjects = []string{"request", "request_uri", "registration"}

// push sends an authorization request to the server (RFC 9126 section 2), and returns what the browser sends in its place (section 4).
func (c *Call) push(p *contract.Push, request []abi.Pair) []abi.Pair {
	client := slices.IndexFunc(request, func(pair abi.Pair) bool { return pair.Name == "client_id" })
	if client < 0 {
		c.endf(StagePlugin, "the output of consent has push, and no client_id in its query, which the browser needs")
	}
	for _, pair := range p.Form {
		c.rejectSealed("the name of a parameter of push", pair.Name)
	}
	endpoint, err := url.Parse(p.URL)
	if err != nil {
		c.end(StageConfig, errNoURL)
	}
	c.checkParameters(endpoint.RawQuery, p.Form)
	isOfClient := func(pair abi.Pair) bool {
		return slices.ContainsFunc(p.Form, func(parameter abi.Pair) bool { return parameter.Name == pair.Name })
	}
	w := &wire{function: "push", contentType: formType}
	w.URL, w.Method, w.Headers = p.URL, http.MethodPost, p.Headers
	w.Form = append(slices.DeleteFunc(slices.Clone(request), isOfClient), p.Form...)
	var uri string
	if failure := c.try(func() { uri = c.pushed(w) }); failure != nil {
		err := Reworded(failure.Err, "the token endpoint", "the endpoint for pushed requests")
		c.end(failure.Stage, fmt.Errorf("the authorization request is not pushed (RFC 9126): %w", err))
	}
	return []abi.Pair{request[client], {Name: "request_uri", Value: uri}}
}

// pushed sends a request that is pushed, and returns the request_uri that stands for it.
func (c *Call) pushed(w *wire) (uri string) {
	c.beginExchange(contract.UserExchange)
	outgoing := c.outgoing(w)
	if c.mode == Explaining {
		return requestURN
	}
	reply := &answer.Reply{}
	refusal := c.exchange(outgoing, reply, func() *view.TokenError {
		if !reply.Success() {
			return &view.TokenError{Status: reply.Status, Code: reply.Code()}
		}
		value, _ := reply.JSON([]string{"request_uri"})
		uri, _ = value.(string)
		if problem := requestURIProblem(uri); problem != "" {
			return &view.TokenError{Status: reply.Status, Code: reply.Code(), Problem: problem}
		}
		return nil
	})
	switch {
	case refusal != nil:
		c.end(StageToken, refusal)
	case c.Scrub(uri) != uri:
		c.end(StageToken, errors.New("the request_uri of the answer has a secret in it, which a browser would show"))
	}
	return uri
}

const (
	requestURN    = "urn:" // the beginning of a request_uri, RFC 9126 section 2.2
	maxRequestURI = 512    // bytes
)

// requestURIProblem returns what is wrong with a request_uri, or "".
func requestURIProblem(uri string) string {
	switch {
	case uri == "":
		return "without a request_uri"
	case !strings.HasPrefix(uri, requestURN) || len(uri) > maxRequestURI || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Sprintf("with a request_uri that is no URN of at most %d bytes", maxRequestURI)
	}
	return ""
}

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
