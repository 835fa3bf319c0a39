package hostfn

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

// Exchange sends a contract.Exchange to a URL of the configuration, and returns a contract.ExchangeReply. The guest gets only the answers
// that the plugin's description names, as sealed values, numbers, times and names. Otherwise it is like TokenRequest.
func (c *exchanging) Exchange(document []byte) []byte {
	c.beginExchange(contract.UserExchange)
	var request contract.Exchange
	c.unmarshal(document, "the request of exchange", &request)
	c.needsState(request.Answers)
	for _, name := range request.Answers {
		if !slices.ContainsFunc(c.plan.Answers, func(a answer.Part) bool { return a.Name == name }) {
			c.endf(StagePlugin, "exchange was asked for the answer %q, which the plugin's description does not have", printable.Text(name, 128))
		}
	}
	outgoing := c.outgoing(c.wire(&request))
	if c.mode == Explaining {
		return c.exchangeReply(http.StatusOK, answer.MadeUp(c.plan.Answers, request.Answers, c.plan.Clock()))
	}
	var found map[string]string
	reply := &answer.Reply{List: c.plan.Answers}
	tokenErr := c.exchange(outgoing, reply, func() *view.TokenError {
		found = reply.Find(request.Answers, answer.MaxSealed)
		refusal := c.refusal(reply, c.missing(found, request.Answers))
		c.settle(reply, refusal)
		return refusal
	})
	status := reply.Status
	if tokenErr != nil { // perhaps a remembered one, and the endpoint was not asked
		status = tokenErr.Status
	}
	c.endRepeated(outgoing, reply, found)
	return c.exchangeReply(status, found)
}

// refusal returns the error for an answer that is a refusal, or nil. missing is the name of a required answer that it lacks.
func (c *exchanging) refusal(a *answer.Reply, missing string) *view.TokenError {
	switch {
	case a.Status >= http.StatusBadRequest:
		return &view.TokenError{Status: a.Status, Code: a.Code()}
	case a.TooLong:
		return &view.TokenError{Status: a.Status, Problem: fmt.Sprintf("with more than %d bytes", len(a.Body)-1)}
	case missing != "":
		return &view.TokenError{Status: a.Status, Code: a.Code(), Problem: "without " + missing}
	}
	return nil // a login with a form may answer with a redirect, which is not followed
}

// missing returns the name of a required answer that was not found, or "".
func (c *exchanging) missing(found map[string]string, names []string) string {
	for i := range c.plan.Answers {
		a := &c.plan.Answers[i]
		if _, ok := found[a.Name]; !ok && a.Required && (len(names) == 0 || slices.Contains(names, a.Name)) {
			return a.Name
		}
	}
	return ""
}

func (c *exchanging) exchangeReply(status int, found map[string]string) []byte {
	return c.marshal(contract.ExchangeReply{Status: status, Answers: c.sealAnswers(c.plan.Answers, found)})
}

// beginExchange ends the call unless it may send a request to a token endpoint now.
func (c *exchanging) beginExchange(function string) {
	c.requireGroup(function)
	c.rejectAfterRead(function, "nothing of one request may reach another place")
	c.runAfresh()
	c.detach(Restart{})
	if c.tokenRequests++; c.tokenRequests > c.plan.Limits.TokenRequests {
		c.Failure = &Failure{Stage: StagePlugin, Err: fmt.Errorf("more than %d token requests in one call", c.plan.Limits.TokenRequests), TokenRequests: true}
		panic(callEnd{})
	}
	fresh := c.tokenRequests == 1 && (c.inputs.Request != nil || c.Right.Ahead()) // authenticate begins with tokens for its first exchange
	if c.plan.Renew != nil && c.mode == Detached && !fresh {
		c.renewIdentities()
	}
}

// renewIdentities puts the tokens for another exchange in place of those of the last one, which the endpoint may take once only.
func (c *exchanging) renewIdentities() {
	renewed, failure := c.plan.Renew(c.ctx, c.inputs)
	if failure != nil {
		c.end(failure.Stage, failure.Err)
	}
	for i, token := range c.inputs.Identities {
		c.sealed.Replace(token, renewed.Identities[i])
		c.seal(seal.Value{Text: token}) // Scrub has to know it
	}
	c.inputs = renewed
}

// exchange sends a request to a token endpoint. It sets the answer and calls read, which returns an error if that is a refusal.
// exchange returns that error. If the endpoint has refused the same request shortly before, it is not asked, and exchange
// returns the error of that time. A refusal with a Problem ends the call.
func (c *exchanging) exchange(outgoing *http.Request, a *answer.Reply, read func() *view.TokenError) (tokenErr *view.TokenError) {
	question, previous, ok := c.plan.Tokens.Ask(c.ctx, c.plan.Owner, c.Used, c.Trace.AsksAnew(), c.question)
	if !ok {
		previous.Remembered = true
		c.TokenError = &previous
		if previous.Problem != "" {
			c.end(StageToken, c.TokenError)
		}
		return c.TokenError
	}
	defer question.End()
	client := c.client()
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	defer cancel()
	client, outgoing, intended := c.intend(ctx, client, outgoing)
	defer intended()
	c.Exchanges++
	host := c.shownHost(outgoing)
	c.Endpoint = ""
	if host != "" {
		c.Endpoint = outgoing.URL.Scheme + "://" + host
	}
	ctx, span := c.plan.Events.Start(outgoing.Context(), event.Span{
		Name: event.Exchange, Field: c.urlField, Method: outgoing.Method, Scheme: outgoing.URL.Scheme, Host: host,
	})
	outgoing = outgoing.WithContext(ctx)
	began := c.plan.Clock()
	err := c.send(client, outgoing, a)
	defer func() { // because the call may end here
		end := event.End{Status: a.Status, Err: err}
		if c.TokenError != nil {
			end.Err = c.TokenError
		}
		span.End(end)
	}()
	took := c.plan.Clock().Sub(began)
	c.ExchangeTime += took
	c.traced(a, took, err)
	c.TokenError = nil
	c.unsettled(err, a)
	if a.Status == 0 || err != nil && a.Success() { // the endpoint was not reached, or its answer is not complete
		c.end(StageToken, err)
	}
	if c.TokenError = read(); c.TokenError != nil {
		c.endGrant(a.Header, c.TokenError) // a grant that is refused is not asked for again, and a new one at once
		c.recordRefusal(question, c.TokenError, a.Header, outgoing.URL.Host)
	} else {
		question.Accept(c.ctx)
		c.checkIDToken(a.Body)
	}
	switch {
	case err != nil:
		c.end(StageToken, err)
	case c.TokenError != nil && c.TokenError.Problem != "":
		c.end(StageToken, c.TokenError)
	}
	return c.TokenError
}

func (c *exchanging) client() *http.Client {
	if c.plan.ClientOf == nil {
		return c.plan.Client
	}
	client, failure := c.plan.ClientOf(c.ctx, c.inputs)
	if failure != nil {
		c.end(failure.Stage, failure.Err)
	}
	return client
}

// send sends a token request and reads the answer into a. If the body cannot be read, a has the status and the header.
func (c *exchanging) send(client *http.Client, r *http.Request, a *answer.Reply) (err error) {
	if deadline, bounded := r.Context().Deadline(); bounded && egress.Over(deadline) {
		c.connected.Store(false)
		return Passing(fmt.Errorf("nothing was sent to the token endpoint: %w", context.DeadlineExceeded))
	}
	response, err := answers.Final(client.Do(r))
	if err != nil {
		return Passing(fmt.Errorf("the token endpoint cannot be reached: %w", c.ScrubError(egress.ClientFailure(client.Transport, err))))
	}
	defer response.Body.Close()
	limit := c.plan.Limits.TokenBytes
	a.Status, a.Header = response.StatusCode, response.Header
	a.Body, err = answers.Read(response, c.plan.Codings, limit)
	switch {
	case errors.Is(err, answers.ErrCoding):
		return fmt.Errorf("the token endpoint answered %d: %w", response.StatusCode, err)
	case err != nil:
		return Passing(fmt.Errorf("the token endpoint's answer broke off: %w", c.ScrubError(egress.ClientFailure(client.Transport, err))))
	}
	if a.TooLong = len(a.Body) > limit; a.TooLong && !a.Success() {
		return fmt.Errorf("the token endpoint answered %d with more than %d bytes", response.StatusCode, limit)
	}
	return nil
}

// checkIDToken ends a run of connect if the answer of an exchange has an ID token without the nonce of the authorization
// request. The token came from the token endpoint over TLS, so its signature need not be checked (OpenID Connect Core section
// 3.1.3.7), and nothing else in it is used.
func (c *exchanging) checkIDToken(body []byte) {
	if c.inputs.Code == nil {
		return
	}
	var members map[string]any
	if strictjson.UnmarshalOpen(body, &members) != nil {
		return // no ID token, and the exchange says what else is wrong
	}
	token := members["id_token"]
	if token == nil {
		return
	}
	text, _ := token.(string)
	if parts := strings.Split(text, "."); len(parts) == 3 {
		var claims map[string]any
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err == nil && strictjson.UnmarshalOpen(payload, &claims) == nil { // which refuses a member that is there twice
			nonce, _ := claims["nonce"].(string)
			if subtle.ConstantTimeCompare([]byte(nonce), []byte(c.inputs.Code.Nonce)) == 1 {
				return
			}
		}
	}
	c.end(StageToken, ErrIDToken)
}

// ErrIDToken means that an ID token is not that of the consent.
var ErrIDToken = errors.New("the ID token does not have the nonce of this consent: it was made for another one")

// endRepeated ends the call if a plain part of an endpoint's answer repeats a text of its request, or a sealed part beside it.
func (c *exchanging) endRepeated(r *http.Request, reply *answer.Reply, found map[string]string) {
	newSent := func() *answer.Sent {
		credentials := slices.Clone(c.inputs.secrets())
		for v := range c.sealed.Values() {
			credentials = append(credentials, v.Text)
		}
		for i := range reply.List {
			if a := &reply.List[i]; a.Kind == contract.AnswerSealed {
				credentials = append(credentials, reply.Text(a))
			}
		}
		request := []string{r.URL.String()}
		for _, values := range r.Header {
			request = append(request, values...)
		}
		if body, err := r.GetBody(); err == nil { // outgoing has made it of bytes
			text, _ := io.ReadAll(body)
			request = append(request, string(text))
		}
		s := answer.NewSent(credentials, request)
		s.Names, s.Now = true, c.plan.Clock()
		return s
	}
	if name := reply.Repeated(found, false, newSent); name != "" {
		c.end(StageToken, fmt.Errorf("the endpoint's answer repeats in %s a text of its request, or a sealed answer, and the plugin would see it", name))
	}
}

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
	tokenErr := c.exchange(outgoing, a, func() (tokenErr *view.TokenError) {
		var problem error
		reply, problem = a.Token(request.Extra)
		switch {
		case problem != nil:
			return &view.TokenError{Status: a.Status, Problem: problem.Error()}
		case reply.AccessToken == "":
			return &view.TokenError{Status: a.Status, Code: reply.Error}
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

// question returns a digest of everything that the answer to the next token request depends on: its place, the partition,
// the cache entries that the call has read, by a number of each, and the number of its token requests. The request itself is
// not included, because an assertion contains another time in each. In a run of connect, the code is included, and in one of
// disconnect the grant: each is asked about once.
func (c *exchanging) question(number func(*tokencache.Handle) uint64) (key [32]byte) {
	partition := c.partition()
	b := partition[:]
	b = binary.BigEndian.AppendUint64(b, uint64(c.tokenRequests))
	b = binary.BigEndian.AppendUint64(b, uint64(len(c.Used)))
	for _, entry := range c.Used {
		b = binary.BigEndian.AppendUint64(b, number(entry))
	}
	if c.offset != nil && *c.offset != 0 { // what was signed for another time is another request
		b = binary.BigEndian.AppendUint64(b, uint64(*c.offset))
	}
	if code := c.inputs.Code; code != nil { // the next consent has another
		b = append(b, code.Code...)
	}
	b = append(b, c.ends...)
	return sha256.Sum256(append(b, c.place...))
}

// recordRefusal records e, for all nodes that ask the same, if the endpoint would refuse the same request again, and sets its
// RetryAfter. A temporary failure, such as of a server that is down, is no refusal unless it has a Retry-After: the next request tries
// again. 429 is always one. It logs the first refusal of a period, with the endpoint's host, in which a secret may be.
func (c *exchanging) recordRefusal(question *tokens.Question, e *view.TokenError, header http.Header, host string) {
	offset, _ := answer.OffsetOf(header, c.plan.Clock())
	e.Offset = time.Duration(offset) * time.Second
	c.plan.ServerOffset(c.inputs.TenantID).Learn(e.Status, header, c.plan.Clock())
	retryAfter := answer.RetryAfter(header, c.plan.Clock())
	if retryAfter == 0 && e.Retryable() && e.Status != http.StatusTooManyRequests {
		return
	}
	refusal, first := question.Refuse(c.ctx, *e, retryAfter, c.jitter())
	e.RetryAfter = refusal.RetryAfter
	if first {
		c.plan.Refused(c.ctx, c.Scrub(printable.Text(host, 256)), e.Error())
	}
}
