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

// TokenError is the answer of a token endpoint that gave no token, RFC 6749 section 5.2.
type TokenError struct {
	Status int    // of HTTP
	Code   string // the registered error code, "other" for any other, "" for none
	// Problem says what is wrong with an answer of 200 to 299: "without an access_token". It is "" for any other status.
	Problem string
	// RetryAfter is how long the host answers so itself, before it asks the endpoint again; 0: the next request asks.
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

// TokenRequest asks a token endpoint, RFC 6749 section 3.2. What the endpoint answers reaches the guest as sealed values
// and registered names only; the body is never kept. What the endpoint refused shortly before is answered in its place.
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

// exchange sends a token request, and returns what of the answer the guest may know.
func (c *Call) exchange(outgoing *http.Request, question *tokencache.Question, extra []string) *abi.TokenReply {
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	defer cancel()
	c.exchanges++
	began := c.plan.Clock()
	answer, err := c.send(outgoing.WithContext(ctx))
	c.exchangeTime += c.plan.Clock().Sub(began)
	c.answer = nil
	if answer.status == 0 || err != nil && answer.success() { // the endpoint was not reached, or its answer broke off
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

// outgoing checks a request and puts its sealed values in.
func (c *Call) outgoing(request *abi.TokenRequest) *http.Request {
	target, _ := c.open("the URL of token_request", request.URL, seal.Token)
	// URLs are compared with their references, and not with what these stand for. Otherwise a guest could make up a URL and
	// see whether its guess of the secret in it is right.
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
	outgoing.Header.Set("Accept", "application/json") // these two unless the guest has its own
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

// send returns status and header also when the body cannot be had.
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

// transportError drops the URL, which may hold a secret, and what the endpoint sent, and scrubs what is left.
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

// ScrubError is err, or one with a scrubbed text that still is what err is.
func (c *Call) ScrubError(err error) error {
	before := err.Error()
	after := Printable(c.Scrub(before), 2048)
	if after == before {
		return err
	}
	return &scrubbed{after, func(target error) bool { return errors.Is(err, target) }}
}

// scrubbed has no Unwrap, which would give the text away; Is answers for sentinels such as context.Canceled. It keeps the
// error in a function, where %#v does not find it either.
type scrubbed struct {
	text string
	is   func(target error) bool
}

func (s *scrubbed) Error() string { return s.text }

func (s *scrubbed) Is(target error) bool { return s.is(target) }

// reply seals what an answer holds, and encodes it for the guest.
func (c *Call) reply(r *abi.TokenReply) []byte {
	if r.Error != "" && r.Status < 300 { // which says to guests that there is a token
		r.Status = http.StatusBadRequest
	}
	token := seal.Header | seal.Query
	if r.AccessToken != "" {
		r.AccessToken = c.seal(seal.Value{Text: r.AccessToken, Sinks: token, Mask: "<token>"})
	}
	// Scope and extras may go back to a token endpoint: a refresh token is of use nowhere else.
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

// explainedReply stands for the answer that would come.
func explainedReply(request *abi.TokenRequest) *abi.TokenReply {
	reply := &abi.TokenReply{Status: http.StatusOK, AccessToken: "token", TokenType: "bearer", Extra: map[string]string{}}
	hour := int64(3600)
	reply.ExpiresIn = &hour
	for _, name := range request.Extra {
		reply.Extra[name] = name
	}
	return reply
}

// readReply takes from an answer what RFC 6749 section 5 defines. The error says what is wrong with an answer of 200 to 299.
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
	if code, refused := members["error"].(string); refused && token == "" { // as GitHub and Slack refuse
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
		if value, ok := members[name].(string); ok && !slices.Contains(known, name) {
			if reply.Extra == nil {
				reply.Extra = map[string]string{}
			}
			reply.Extra[name] = value
		}
	}
	return reply, nil
}

// known members of an answer are not extras.
var known = []string{"access_token", "token_type", "expires_in", "scope", "error"}

// errorCodes are registered for token endpoints: RFC 6749 section 5.2, 7009, 8628, 8693, 8707, 9449.
var errorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"unsupported_token_type", "authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_target",
	"invalid_dpop_proof", "use_dpop_nonce", "server_error", "temporarily_unavailable",
}

// tokenTypes are registered at IANA as OAuth access token types, in lower case.
var tokenTypes = []string{"bearer", "dpop", "pop", "n_a", "mac"}

func registered(name string, names []string) string {
	if slices.Contains(names, name) {
		return name
	}
	return "other"
}

// seconds reads an expires_in: a JSON number or a decimal string that is 0 to 2³¹−1 when its fraction is cut off.
// Anything else is as if it were absent.
func seconds(v any) *int64 {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if text == "" || len(text) > 32 || strings.ContainsAny(text, "/_xXoObBpPiI") { // what big.Rat knows beyond decimals
		return nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil // an exponent of three digits is either way out of range, and costly to write out
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
