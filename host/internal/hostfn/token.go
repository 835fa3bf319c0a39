package hostfn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// TokenError is an answer of a token endpoint without a token (RFC 6749 section 5.2).
type TokenError struct {
	// Status is the status code of HTTP.
	Status int
	// Code is the error code if it is registered, "other" if it is not, and "" if there is none.
	Code string
	// Problem says what is wrong with an answer of 200 to 299, such as "without an access_token". It is "" for any
	// other status.
	Problem string
	// RetryAfter is the time during which the host does not repeat the request, but returns this answer for it. If 0,
	// the next request asks the endpoint.
	RetryAfter time.Duration
}

func (e *TokenError) Error() string {
	text := fmt.Sprintf("the token endpoint answered %d", e.Status)
	if e.Problem != "" {
		text += " " + e.Problem
	}
	if e.Code != "" {
		text += fmt.Sprintf(" (%s)", e.Code)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; it is asked again in %v", (e.RetryAfter + time.Second - 1).Truncate(time.Second))
	}
	return text
}

// TokenRequest sends an abi.TokenRequest to a token endpoint (RFC 6749 section 3.2), and returns an abi.TokenReply. The
// guest gets the answer only as sealed values, registered names and numbers. The body is not kept. If the endpoint has
// refused the same request shortly before, it is not asked, and the guest gets that answer.
func (c *Call) TokenRequest(document []byte) []byte {
	c.need(abi.UserTokenRequest)
	if c.inputRead {
		c.endf(StagePlugin, "token_request was called after the request was read: nothing of one request may reach another place")
	}
	if c.mode == Inline {
		c.restart = &Restart{}
		panic(ended{})
	}
	var request abi.TokenRequest
	if err := strictjson.Unmarshal(document, &request); err != nil {
		c.endf(StagePlugin, "the request of token_request %w", err)
	}
	if c.tokenRequests++; c.tokenRequests > c.plan.Limits.TokenRequests {
		c.endf(StagePlugin, "more than %d token requests in one call", c.plan.Limits.TokenRequests)
	}
	outgoing := c.outgoing(&request)
	if c.mode == Explaining {
		return c.reply(explainedReply(&request))
	}
	question, before, may := c.plan.Cache.Refusals.Ask(c.question(outgoing.URL.String()))
	if !may {
		c.answer, c.otherType = &TokenError{Status: before.Status, Code: before.Code, Problem: before.Problem, RetryAfter: before.Wait}, false
		if before.Problem != "" {
			c.end(StageToken, c.answer)
		}
		return c.reply(&abi.TokenReply{Status: before.Status, Error: before.Code})
	}
	defer question.End()
	return c.reply(c.exchange(outgoing, question, request.Extra))
}

// exchange sends a token request, and returns the parts of the answer that the guest may get. They are not sealed yet.
func (c *Call) exchange(outgoing *http.Request, question *tokencache.Question, extra []string) *abi.TokenReply {
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	defer cancel()
	c.exchanges++
	began := c.plan.Clock()
	answer, err := c.send(outgoing.WithContext(ctx))
	c.exchangeTime += c.plan.Clock().Sub(began)
	c.answer = nil
	if answer.status == 0 || err != nil && answer.success() { // the endpoint was not reached, or its answer is not complete
		c.end(StageToken, err)
	}
	reply, problem := readReply(&answer, extra)
	switch {
	case problem != nil:
		c.answer = &TokenError{Status: answer.status, Problem: problem.Error()}
	case reply.AccessToken == "":
		c.answer = &TokenError{Status: answer.status, Code: reply.Error}
	default:
		question.Accepted()
	}
	if c.answer != nil {
		c.refused(question, c.answer, answer.header)
	}
	switch {
	case err != nil:
		c.end(StageToken, err)
	case problem != nil:
		c.end(StageToken, c.answer)
	}
	c.otherType = reply.TokenType != "" && reply.TokenType != "bearer"
	return reply
}

// outgoing checks a token request, puts the sealed values in, and returns it as an HTTP request.
func (c *Call) outgoing(request *abi.TokenRequest) *http.Request {
	target, _ := c.open("the URL of token_request", request.URL, seal.Token)
	// URLs are compared with their references, and not with their values put in. Otherwise, a guest could use a URL of
	// its own to check a guess of the secret in it.
	if !slices.Contains(c.urls, request.URL) {
		for _, name := range slices.Sorted(maps.Keys(c.plan.Fields)) {
			if c.plan.Fields[name].Kind == abi.KindURL {
				c.ConfigGet(name)
			}
		}
	}
	if !slices.Contains(c.urls, request.URL) {
		c.endf(StagePlugin, "token_request may only go to a URL that is a field of the configuration, as config_get returned it in this call")
	}
	var form strings.Builder
	for i, pair := range request.Form {
		name, _ := c.open("the form of token_request", pair.Name, seal.Token)
		value, _ := c.open("the form of token_request", pair.Value, seal.Token)
		if i > 0 {
			form.WriteByte('&')
		}
		form.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(value))
	}
	outgoing, err := http.NewRequestWithContext(c.ctx, http.MethodPost, target, strings.NewReader(form.String()))
	if err != nil {
		c.end(StageConfig, errors.New("the token URL is not a URL"))
	}
	outgoing.Header.Set("Accept", "application/json") // the guest's own headers replace these two
	outgoing.Header.Set("User-Agent", "keywright")
	seen := map[string]bool{"Content-Type": true}
	for _, pair := range request.Headers {
		name, value, shown := c.header("the headers of token_request", pair, seal.Token)
		if shown.sealed && len(request.Headers) > 1 {
			c.endf(StagePlugin, "the headers of token_request: there are several, and the name of one is sealed: %s", aloneWhenSealed)
		}
		canonical := http.CanonicalHeaderKey(name)
		if seen[canonical] {
			c.endf(StagePlugin, "the headers of token_request: %s is there twice, or is the host's to set", shown)
		}
		seen[canonical] = true
		outgoing.Header.Set(name, value)
	}
	outgoing.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return outgoing
}

// answer is the response of a token endpoint.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	tooLong bool
}

func (a *answer) success() bool { return a.status >= 200 && a.status <= 299 }

// send sends a token request and reads the answer. If the body cannot be read, it returns the status and the header
// with the error.
func (c *Call) send(r *http.Request) (a answer, err error) {
	response, err := c.plan.Client.Do(r)
	if err != nil {
		return answer{}, Passing(fmt.Errorf("the token endpoint cannot be reached: %w", c.transportError(err)))
	}
	defer response.Body.Close()
	limit := c.plan.Limits.TokenBytes
	a = answer{status: response.StatusCode, header: response.Header}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err != nil {
		return a, Passing(fmt.Errorf("the token endpoint's answer broke off: %w", c.transportError(err)))
	}
	if a.tooLong = len(a.body) > limit; a.tooLong && !a.success() {
		return a, fmt.Errorf("the token endpoint answered %d with more than %d bytes", response.StatusCode, limit)
	}
	return a, nil
}

// transportError returns an error of the HTTP client without the URL, which may contain a secret. For an *http.Transport,
// it also removes text that the endpoint sent. It scrubs the rest.
func (c *Call) transportError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if _, plain := c.plan.Client.Transport.(*http.Transport); plain {
		err = egress.Failure(err)
	}
	return c.ScrubError(err)
}

// ScrubError returns err if its text is printable and contains no secret. Otherwise it returns an error with a scrubbed
// text, for which errors.Is reports the same as for err. Unwrap and errors.As do not reach err.
func (c *Call) ScrubError(err error) error {
	before := err.Error()
	after := Printable(c.Scrub(before), 2048)
	if after == before {
		return err
	}
	return &scrubbed{after, func(target error) bool { return errors.Is(err, target) }}
}

// scrubbed is an error with a scrubbed text. It has no Unwrap, because that would reveal the text of the original
// error. Its Is finds sentinels such as context.Canceled. It holds the original error only in a closure, where %#v does
// not find it either.
type scrubbed struct {
	text string
	is   func(target error) bool
}

func (s *scrubbed) Error() string { return s.text }

func (s *scrubbed) Is(target error) bool { return s.is(target) }

// reply seals the values of an answer, and encodes it for the guest.
func (c *Call) reply(r *abi.TokenReply) []byte {
	if r.Error != "" && r.Status < 300 { // guests take such a status for success
		r.Status = http.StatusBadRequest
	}
	token := seal.Header | seal.Query
	if r.AccessToken != "" {
		r.AccessToken = c.seal(seal.Value{Text: r.AccessToken, Sinks: token, Mask: "<token>"})
	}
	// Scope and extras may also go to a token endpoint, where a refresh token is needed.
	if r.Scope != "" {
		r.Scope = c.seal(seal.Value{Text: r.Scope, Sinks: token | seal.Token, Mask: "<scope>"})
	}
	for name, value := range r.Extra {
		r.Extra[name] = c.seal(seal.Value{Text: value, Sinks: token | seal.Token, Mask: "<" + name + ">"})
	}
	document, err := strictjson.Marshal(r)
	if err != nil {
		c.end(StageToken, err)
	}
	return document
}

// explainedReply returns a made-up successful answer, for a call that is explained.
func explainedReply(request *abi.TokenRequest) *abi.TokenReply {
	reply := &abi.TokenReply{Status: http.StatusOK, AccessToken: "token", TokenType: "bearer", Extra: map[string]string{}}
	hour := int64(3600)
	reply.ExpiresIn = &hour
	for _, name := range request.Extra {
		reply.Extra[name] = name
	}
	return reply
}

// readReply returns the members of an answer that RFC 6749 section 5 defines, and those named in extra. The error says
// what is wrong with an answer of 200 to 299. Other answers cause no error.
func readReply(a *answer, extra []string) (*abi.TokenReply, error) {
	reply := &abi.TokenReply{Status: a.status}
	var members map[string]any
	err := strictjson.UnmarshalOpen(a.body, &members)
	switch {
	case !a.success():
		if code, ok := members["error"].(string); ok {
			reply.Error = registered(code, errorCodes)
		}
		return reply, nil
	case a.tooLong:
		return nil, fmt.Errorf("with more than %d bytes", len(a.body)-1)
	case err != nil:
		return nil, fmt.Errorf("with a body that %w", err)
	}
	token, ok := members["access_token"].(string)
	if code, refused := members["error"].(string); refused && token == "" { // GitHub and Slack refuse in this way
		reply.Error = registered(code, errorCodes)
		return reply, nil
	}
	if !ok || strings.TrimSpace(token) == "" {
		return nil, errors.New("without an access_token")
	}
	for _, r := range []byte(token) {
		if r < ' ' || r > '~' { // RFC 6749 appendix A.12
			return nil, errors.New("with an access_token that holds characters no token may have")
		}
	}
	reply.AccessToken = token
	switch tokenType := members["token_type"].(type) {
	case nil:
	case string:
		reply.TokenType = registered(strings.ToLower(tokenType), tokenTypes)
	default:
		reply.TokenType = "other"
	}
	reply.ExpiresIn = seconds(members["expires_in"])
	reply.Scope, _ = members["scope"].(string)
	for _, name := range extra {
		if value, ok := members[name].(string); ok && !slices.Contains(reservedMembers, name) {
			if reply.Extra == nil {
				reply.Extra = map[string]string{}
			}
			reply.Extra[name] = value
		}
	}
	return reply, nil
}

// reservedMembers holds the members of an answer that a guest cannot get as extras.
var reservedMembers = []string{"access_token", "token_type", "expires_in", "scope", "error"}

// errorCodes holds the error codes that are registered for token endpoints: RFC 6749 section 5.2, RFCs 7009, 8628,
// 8693, 8707 and 9449.
var errorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"unsupported_token_type", "authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_target",
	"invalid_dpop_proof", "use_dpop_nonce", "server_error", "temporarily_unavailable",
}

// tokenTypes holds the OAuth access token types that are registered at IANA, in lower case.
var tokenTypes = []string{"bearer", "dpop", "pop", "n_a", "mac"}

// registered returns name if it is among names, and "other" if not.
func registered(name string, names []string) string {
	if slices.Contains(names, name) {
		return name
	}
	return "other"
}

// seconds returns the value of an expires_in: a JSON number or a decimal string from 0 to 2³¹−1, with its fraction cut
// off. For anything else it returns nil, as if it were absent.
func seconds(v any) *int64 {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if text == "" || len(text) > 32 || strings.ContainsAny(text, "/_xXoObBpPiI") { // big.Rat would accept these characters
		return nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil // with an exponent of three digits, the value is too large or almost 0, and costly to compute
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok || rat.Sign() < 0 {
		return nil
	}
	n := new(big.Int).Quo(rat.Num(), rat.Denom())
	if !n.IsInt64() || n.Int64() > 1<<31-1 {
		return nil
	}
	value := n.Int64()
	return &value
}
