package hostfn

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// TokenError is an answer of a token endpoint without a token (RFC 6749 section 5.2).
type TokenError struct {
	// Status is the status code of HTTP.
	Status int
	// Code is the error code if it is registered, "other" if it is not, and "" if there is none.
	Code string
	// Problem says what is wrong with an answer that is no error, such as "without an access_token". It is "" if Status is
	// 400 or more.
	Problem string
	// RetryAfter is the time during which the host does not repeat the request, but returns this answer for it. If 0,
	// the next request asks the endpoint.
	RetryAfter time.Duration
	// Offset is the time that the endpoint's clock is ahead of the host's, by its header Date. It is 0 if that is missing, or if
	// the clocks are less than leastOffset apart.
	Offset time.Duration
	// Remembered reports whether the endpoint was not asked, because it has refused the same request before: Age ago,
	// or longer ago if another node has asked it.
	Remembered bool
	Age        time.Duration
}

func (e *TokenError) Error() string {
	text := fmt.Sprintf("the token endpoint answered %d", e.Status)
	if e.Problem != "" {
		text += " " + e.Problem
	}
	switch e.Code {
	case "":
	case "other":
		text += " (an error code that is not registered)"
	default:
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
	c.beginExchange(abi.UserTokenRequest)
	if c.held.turn != nil {
		c.endf(StagePlugin, "token_request was called after state_get: use exchange, which keeps the answers that are a state")
	}
	var request abi.TokenRequest
	if err := strictjson.Unmarshal(document, &request); err != nil {
		c.endf(StagePlugin, "the request of token_request %w", err)
	}
	outgoing := c.outgoing(&wire{
		function: abi.UserTokenRequest, url: request.URL, method: http.MethodPost, headers: request.Headers, form: request.Form, contentType: formType,
	})
	if c.mode == Explaining {
		return c.reply(explainedReply(&request))
	}
	var reply *abi.TokenReply
	c.otherType = false
	var read *parts
	refused := c.exchange(outgoing, func(a *answer) (refused *TokenError) {
		var problem error
		read = &parts{header: a.header, body: a.body}
		reply, problem = readReply(a, request.Extra)
		switch {
		case problem != nil:
			return &TokenError{Status: a.status, Problem: problem.Error()}
		case reply.AccessToken == "":
			return &TokenError{Status: a.status, Code: reply.Error}
		}
		return nil
	})
	if refused != nil {
		return c.reply(&abi.TokenReply{Status: refused.Status, Error: refused.Code})
	}
	if reply.ExpiresIn != nil {
		c.endRepeated(outgoing, tokenAnswers, read, map[string]string{"expires_in": strconv.FormatInt(*reply.ExpiresIn, 10)})
	}
	c.otherType = reply.TokenType != "" && reply.TokenType != "bearer"
	return c.reply(reply)
}

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
		// Apigee calls tokens of RFC 6750 BearerToken (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens).
		reply.TokenType = registered(strings.TrimSuffix(strings.ToLower(tokenType), "token"), tokenTypes)
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
