package hostfn

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
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
func (c *exchanging) TokenRequest(document []byte) []byte {
	c.beginExchange(abi.UserTokenRequest)
	if c.turn != nil {
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
		return c.reply(answer.MadeUpToken(request.Extra))
	}
	var reply *abi.TokenReply
	c.otherType = false
	a := &answer.Reply{List: tokenParts}
	refused := c.exchange(outgoing, a, func() (refused *TokenError) {
		var problem error
		reply, problem = a.Token(request.Extra)
		switch {
		case problem != nil:
			return &TokenError{Status: a.Status, Problem: problem.Error()}
		case reply.AccessToken == "":
			return &TokenError{Status: a.Status, Code: reply.Error}
		}
		return nil
	})
	if refused != nil {
		return c.reply(&abi.TokenReply{Status: refused.Status, Error: refused.Code})
	}
	if reply.ExpiresIn != nil {
		c.endRepeated(outgoing, a, map[string]string{"expires_in": strconv.FormatInt(*reply.ExpiresIn, 10)})
	}
	c.otherType = reply.TokenType != "" && reply.TokenType != "bearer"
	return c.reply(reply)
}

// reply seals the values of an answer, and encodes it for the guest.
func (c *exchanging) reply(r *abi.TokenReply) []byte {
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
