package hostfn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
)

// exchangeLog has the outcomes of a call's token requests.
type exchangeLog struct {
	// exchanges counts the token requests that were sent.
	exchanges int
	// endpoint is the origin of the last one, or "" if a sealed value is a part of its host.
	endpoint string
	// exchangeTime is the time that token endpoints took.
	exchangeTime time.Duration
	// answer is the last answer of a token endpoint if that was an error, and nil otherwise.
	answer *TokenError
	// otherType is set if the type of the last token was not bearer.
	otherType bool
}

// exchanging sends the token requests of a call.
type exchanging struct {
	*cacheUse
	*grantUse
	// AskAnew asks token endpoints although refusals of them are remembered.
	AskAnew bool
	// tokenRequests counts the calls of TokenRequest and Exchange, whether or not a request was sent.
	tokenRequests int
	// urlReference is the URL of the last exchange as the guest has it, with references, and urlField the field that it is from.
	urlReference, urlField string
	// place is the place of the last exchange, see placeOf.
	place string
}

// Exchange sends an abi.Exchange to a URL of the configuration, and returns an abi.ExchangeReply. The guest gets only the
// answers that the plugin's description names, as sealed values, numbers, times and names. Otherwise it is like
// TokenRequest.
func (c *exchanging) Exchange(document []byte) []byte {
	c.beginExchange(abi.UserExchange)
	var request abi.Exchange
	if err := strictjson.Unmarshal(document, &request); err != nil {
		c.endf(StagePlugin, "the request of exchange %w", err)
	}
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
	refused := c.exchange(outgoing, reply, func() *TokenError {
		found = reply.Find(request.Answers, answer.MaxSealed)
		refusal := c.refusal(reply, c.missing(found, request.Answers))
		c.settle(reply, refusal)
		return refusal
	})
	status := reply.Status
	if refused != nil { // perhaps a remembered one, and the endpoint was not asked
		status = refused.Status
	}
	c.endRepeated(outgoing, reply, found)
	return c.exchangeReply(status, found)
}

// refusal returns the error for an answer that is a refusal, or nil. missing is the name of a required answer that it lacks.
func (c *exchanging) refusal(a *answer.Reply, missing string) *TokenError {
	switch {
	case a.Status >= http.StatusBadRequest:
		return &TokenError{Status: a.Status, Code: a.Code()}
	case a.TooLong:
		return &TokenError{Status: a.Status, Problem: fmt.Sprintf("with more than %d bytes", len(a.Body)-1)}
	case missing != "":
		return &TokenError{Status: a.Status, Code: a.Code(), Problem: "without " + missing}
	}
	return nil // a login with a form may answer with a redirect, which is not followed
}

// missing returns the name of a required answer that was not found, or "".
func (c *exchanging) missing(found map[string]string, wanted []string) string {
	for i := range c.plan.Answers {
		a := &c.plan.Answers[i]
		if _, ok := found[a.Name]; !ok && a.Required && (len(wanted) == 0 || slices.Contains(wanted, a.Name)) {
			return a.Name
		}
	}
	return ""
}

func (c *exchanging) exchangeReply(status int, found map[string]string) []byte {
	document, err := strictjson.Marshal(abi.ExchangeReply{Status: status, Answers: c.sealAnswers(c.plan.Answers, found)})
	if err != nil {
		c.end(StageToken, err)
	}
	return document
}

// beginExchange ends the call unless it may send a request to a token endpoint now.
func (c *exchanging) beginExchange(function string) {
	c.need(function)
	if c.inputRead {
		c.endf(StagePlugin, "%s was called after the request was read: nothing of one request may reach another place", function)
	}
	c.runAfresh()
	if c.mode == Inline {
		c.restart = &Restart{}
		panic(ended{})
	}
	if c.tokenRequests++; c.tokenRequests > c.plan.Limits.TokenRequests {
		c.failure = &Failure{Stage: StagePlugin, Err: fmt.Errorf("more than %d token requests in one call", c.plan.Limits.TokenRequests), TokenRequests: true}
		panic(ended{})
	}
}

// exchange sends a request to a token endpoint. It sets the answer and calls read, which returns an error if that is a refusal.
// exchange returns that error. If the endpoint has refused the same request shortly before, it is not asked, and exchange
// returns the error of that time. A refusal with a Problem ends the call.
func (c *exchanging) exchange(outgoing *http.Request, a *answer.Reply, read func() *TokenError) (refused *TokenError) {
	question, before, may := c.mayAsk()
	if !may {
		c.answer = &TokenError{Status: before.Status, Code: before.Code, Problem: before.Problem, RetryAfter: before.Wait, Offset: before.Offset, Remembered: true, Age: before.Age}
		if before.Problem != "" {
			c.end(StageToken, c.answer)
		}
		return c.answer
	}
	defer question.End()
	client := c.client()
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	defer cancel()
	client, outgoing, intended := c.intend(ctx, client, outgoing)
	defer intended()
	c.exchanges++
	shown := c.shownHost(outgoing)
	c.endpoint = ""
	if shown != "" {
		c.endpoint = outgoing.URL.Scheme + "://" + shown
	}
	outgoing, end := c.exchangeSpan(outgoing, shown)
	began := c.plan.Clock()
	err := c.send(client, outgoing, a)
	if end != nil {
		defer func() { end(SpanEnd{Status: a.Status, Refused: c.answer, Err: err}) }() // deferred, because the call may end here
	}
	took := c.plan.Clock().Sub(began)
	c.exchangeTime += took
	c.traced(a, took, err)
	c.answer = nil
	c.unsettled(err, a)
	if a.Status == 0 || err != nil && a.Success() { // the endpoint was not reached, or its answer is not complete
		c.end(StageToken, err)
	}
	if c.answer = read(); c.answer != nil {
		c.endGrant(a.Header, c.answer) // a grant that is refused is not asked for again, and a new one at once
		c.refused(question, c.answer, a.Header, outgoing.URL.Host)
	} else {
		question.accepted(c.ctx)
		c.checkIDToken(a.Body)
	}
	switch {
	case err != nil:
		c.end(StageToken, err)
	case c.answer != nil && c.answer.Problem != "":
		c.end(StageToken, c.answer)
	}
	return c.answer
}

// wire is a request of a guest to a token endpoint.
type wire struct {
	// function is the host function, for errors.
	function string
	url      string
	path     []string
	query    []abi.Pair
	method   string
	headers  []abi.Pair
	form     []abi.Pair
	// json is the body if contentType is jsonType.
	json any
	// contentType is formType, jsonType, or "" if there is no body.
	contentType string
	// sink is the sink that sealed values must have.
	sink seal.Sinks
}

const jsonType = "application/json"

// wire checks the combination of an exchange's members.
func (c *exchanging) wire(request *abi.Exchange) *wire {
	w := &wire{
		function: abi.UserExchange, url: request.URL, path: request.Path, query: request.Query, method: request.Method,
		headers: request.Headers, form: request.Form, json: request.JSON,
	}
	if w.method == "" {
		w.method = http.MethodPost
	}
	switch w.method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		c.endf(StagePlugin, "the request of exchange: method is GET, POST, PUT, PATCH or DELETE")
	}
	switch {
	case w.json != nil && len(w.form) > 0:
		c.endf(StagePlugin, "the request of exchange has both form and json, and a request has one body")
	case w.json != nil:
		w.contentType = jsonType
	case len(w.form) > 0:
		w.contentType = formType
	}
	if w.method == http.MethodGet && w.contentType != "" {
		c.endf(StagePlugin, "the request of exchange: a GET has no body")
	}
	return w
}

// outgoing checks a request, puts the sealed values in, and returns it as an HTTP request.
func (c *exchanging) outgoing(w *wire) *http.Request {
	target := c.target(w)
	c.explainExchange(w)
	body := []byte(c.encoded(w, "form", w.form))
	if w.contentType == jsonType {
		body = c.jsonBody(w)
	}
	outgoing, err := http.NewRequestWithContext(c.ctx, w.method, target, bytes.NewReader(body))
	if err != nil {
		c.end(StageConfig, errors.New("the token URL is not a URL"))
	}
	if len(w.query) > 0 {
		if outgoing.URL.RawQuery != "" {
			outgoing.URL.RawQuery += "&"
		}
		outgoing.URL.RawQuery += c.encoded(w, "query", w.query)
	}
	outgoing.Header.Set("Accept", jsonType) // the guest's own headers replace these two
	outgoing.Header.Set("User-Agent", c.plan.UserAgent)
	seen := map[string]bool{"Content-Type": true}
	where := "the headers of " + w.function
	for _, pair := range w.headers {
		name, value, shown := c.header(where, pair, w.sink)
		if shown.sealed && len(w.headers) > 1 {
			c.endf(StagePlugin, "%s: there are several, and the name of one is sealed: %s", where, aloneWhenSealed)
		}
		canonical := http.CanonicalHeaderKey(name)
		if seen[canonical] {
			c.endf(StagePlugin, "%s: %s is there twice, or is the host's to set", where, shown)
		}
		seen[canonical] = true
		outgoing.Header.Set(name, value)
	}
	if w.contentType != "" {
		outgoing.Header.Set("Content-Type", w.contentType)
	}
	return outgoing
}

// target returns the URL of a request. It ends the call unless that is a URL of the configuration.
func (c *exchanging) target(w *wire) string {
	target, _ := c.open("the URL of "+w.function, w.url, seal.Token)
	// URLs are compared with their references, and not with their values put in. Otherwise, a guest could use a URL of
	// its own to check a guess of the secret in it.
	if !slices.Contains(c.urls, w.url) {
		c.readURLs()
	}
	if !slices.Contains(c.urls, w.url) {
		c.endf(StagePlugin, "%s may only go to a URL that is a field of the configuration, as config_get returned it in this call", w.function)
	}
	c.asksAt(w.url)
	w.sink = c.exchangeSink(target)
	c.place = c.placeOf(w)
	if len(w.path) == 0 {
		return target
	}
	u, err := url.Parse(target)
	if err != nil {
		c.end(StageConfig, errors.New("the token URL is not a URL"))
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, segment := range w.path {
		segment, _ = c.open("the path of "+w.function, segment, w.sink)
		if segment == "" || segment == "." || segment == ".." {
			c.endf(StagePlugin, `the path of %s has a segment that is empty, "." or ".."`, w.function)
		}
		path += "/" + urlpath.Percent(segment)
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		c.end(StageConfig, errors.New("the token URL is not a URL"))
	}
	u.RawPath = path
	return u.String()
}

// readURLs renders the fields of kind url.
func (c *rendering) readURLs() {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Fields)) {
		if c.plan.Fields[name].Kind == abi.KindURL {
			c.ConfigGet(name)
		}
	}
}

// encoded returns pairs as application/x-www-form-urlencoded.
func (c *exchanging) encoded(w *wire, what string, pairs []abi.Pair) string {
	where := "the " + what + " of " + w.function
	var form strings.Builder
	for i, pair := range pairs {
		name, _ := c.open(where, pair.Name, w.sink)
		value, _ := c.open(where, pair.Value, w.sink)
		if i > 0 {
			form.WriteByte('&')
		}
		form.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(value))
	}
	return form.String()
}

// jsonBody returns the JSON of a request, with the sealed values put into its strings.
func (c *exchanging) jsonBody(w *wire) []byte {
	where := "the json of " + w.function
	tree, err := strictjson.MapStrings(w.json, func(text string) (string, error) {
		c.notRaw(where, text)
		out, _ := c.open(where, text, w.sink)
		return strings.ToValidUTF8(out, "\uFFFD"), nil
	}, func(name string) error {
		c.plain("a name in "+where, name)
		return nil
	})
	if err != nil {
		c.end(StagePlugin, err)
	}
	body, err := strictjson.Marshal(tree)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return body
}

// client returns the client for token requests.
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
	if deadline, bounded := r.Context().Deadline(); bounded && over(deadline) {
		c.connected.Store(false)
		return Passing(fmt.Errorf("nothing was sent to the token endpoint: %w", context.DeadlineExceeded))
	}
	response, err := answers.Final(client.Do(r))
	if err != nil {
		return Passing(fmt.Errorf("the token endpoint cannot be reached: %w", c.transportError(client, err)))
	}
	defer response.Body.Close()
	limit := c.plan.Limits.TokenBytes
	a.Status, a.Header = response.StatusCode, response.Header
	a.Body, err = answers.Read(response, c.plan.Codings, limit)
	switch {
	case errors.Is(err, answers.ErrCoding):
		return fmt.Errorf("the token endpoint answered %d: %w", response.StatusCode, err)
	case err != nil:
		return Passing(fmt.Errorf("the token endpoint's answer broke off: %w", c.transportError(client, err)))
	}
	if a.TooLong = len(a.Body) > limit; a.TooLong && !a.Success() {
		return fmt.Errorf("the token endpoint answered %d with more than %d bytes", response.StatusCode, limit)
	}
	return nil
}

// transportError returns an error of the HTTP client without the URL, which may contain a secret. For an *http.Transport,
// it also removes text that the endpoint sent. It scrubs the rest.
func (c *exchanging) transportError(client *http.Client, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if _, plain := client.Transport.(*http.Transport); plain {
		err = egress.Failure(err)
	}
	return c.ScrubError(err)
}
