package hostfn

import (
	"net/http"
	"strconv"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/contract"
)

// TokenRequest sends a contract.TokenRequest to a token endpoint (RFC 6749 section 3.2), and returns a contract.TokenReply. The
// guest gets the answer only as sealed values, registered names and numbers. The body is not kept. If the endpoint has
// refused the same request shortly before, it is not asked, and the guest gets that answer.
func (c *exchanging) TokenRequest(document []byte) []byte {
	c.beginExchange(contract.UserTokenRequest)
	if c.turn != nil {
		c.endf(StagePlugin, "token_request was called after state_get: use exchange, which keeps the answers that are a state")
	}
	var request contract.TokenRequest
	c.unmarshal(document, "the request of token_request", &request)
	w := &wire{function: contract.UserTokenRequest, contentType: formType}
	w.URL, w.Method, w.Headers, w.Form = request.URL, http.MethodPost, request.Headers, request.Form
	outgoing := c.outgoing(w)
	if c.mode == Explaining {
		return c.reply(answer.MadeUpToken(request.Extra))
	}
	var reply *contract.TokenReply
	c.OtherType = false
	a := &answer.Reply{List: tokenParts}
	tokenErr := c.exchange(outgoing, a, func() (tokenErr *TokenError) {
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
	if tokenErr != nil {
		return c.reply(&contract.TokenReply{Status: tokenErr.Status, Error: tokenErr.Code})
	}
	if reply.ExpiresIn != nil {
		c.endRepeated(outgoing, a, map[string]string{"expires_in": strconv.FormatInt(*reply.ExpiresIn, 10)})
	}
	c.OtherType = reply.TokenType != "" && reply.TokenType != "bearer"
	return c.reply(reply)
}

// reply seals the values of an answer, and encodes it for the guest.
func (c *exchanging) reply(r *contract.TokenReply) []byte {
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
	return c.marshal(r)
}

// tokenParts are the parts of an answer to token_request that endRepeated looks at.
var tokenParts = []answer.Part{
	{Answer: abi.Answer{Name: "access_token", Kind: contract.AnswerSealed}, Source: answer.Source{From: contract.FromJSON, Pointer: []string{"access_token"}}},
	{Answer: abi.Answer{Name: "expires_in", Kind: contract.AnswerInteger}, Source: answer.Source{From: contract.FromJSON, Pointer: []string{"expires_in"}}},
}
