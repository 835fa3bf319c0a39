package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/remedy"
	"github.com/keywright/keywright/server/internal/trial"
)

// Use says what a request used a credential for.
type Use string

// The uses.
const (
	// UseRequest is a request of a caller to an API.
	UseRequest Use = "request"
	// UseTest is a test of an operator.
	UseTest Use = "test"
	// UseConsent begins the consent of a user, UseCallback ends it, and UseDisconnect takes it back.
	UseConsent    Use = "consent"
	UseCallback   Use = "callback"
	UseDisconnect Use = "disconnect"
)

// Event describes a request and its answer.
type Event struct {
	// ID is the value of the answer's X-Request-Id: the trace ID of the caller's traceparent, or random. It has 32 hexadecimal digits.
	ID string
	// Connector is the permalink of the connector. It is "" if the request named no known connector.
	Connector string
	// Served is the connector itself. It is nil if Connector is "".
	Served *Connector
	// Use says what a credential of the connector was used for, or was to be used for when the request failed. It is "" if the
	// request was refused before.
	Use Use
	// Test reports whether the request was a test of an operator, through [Gateway.Test]. Such a request has the Method, Pattern,
	// Tenant and User of the request that it describes.
	Test bool
	// Method is the method of the caller's request. It is "OTHER" for one that is neither one of net/http nor one of the
	// connector's definition, so that callers cannot make up labels of metrics.
	Method string
	// Pattern is the one of the definition's Paths that allowed the caller's path, as it is in the definition. It is "" if the caller
	// appended no path, or one that is not allowed. At /connect and below it is the path, with {permalink} in place of the connector's.
	Pattern string
	// Host is the host of the API, with its port if the URL has one. It is "" if the request was refused before it was known.
	Host string
	// Tenant is the TenantID of the user, and User the ID. They are "" if the request had no user, or was refused before the
	// user was known. User is personal data.
	Tenant, User string
	// Sends is the number of times that the request was sent to the API.
	Sends int
	// Status is the status of the answer. It is 499 if the caller did not wait for the answer.
	Status int
	// UpstreamStatus is the status of the API's last answer. It is 0 if the API did not answer.
	UpstreamStatus int
	// Problem is the last part of the problem's type, such as upstream-failed; docs/gateway.md lists them. It is also set if
	// the problem cut an answer off. It is "" if there was no problem.
	Problem string
	// Stage is the [host.Stage] at which authentication failed. It is "" if it did not fail.
	Stage string
	// Err is the error in the log if there was a problem. It is for operators.
	Err error
	// Refusal describes the API's answer if it has the status 400, 401 or 403.
	Refusal Refused
	// Total is the time from the start of the request until its answer had been written.
	Total time.Duration
	// Upstream is the time from sending the request to the API until the API's answer began, or until sending failed. If the host sent the
	// request again after a 401, it includes both attempts, and the token request between them. It is 0 if nothing was sent.
	Upstream time.Duration
	// API is the time that the API took for both attempts, without what is between them.
	API time.Duration
	// Attempt says what authentication took, with the attempt after a 401: Exchanges, TokenTime, KeyRequests, KeyTime, SandboxTime, Fuel
	// and Cached of all attempts together, and the last Failure. Nothing else in it is set, and nothing at all unless the function
	// [Observe] is Observe in the [host.Config] of the connector's host.
	Attempt host.Attempt

	// Traceparent is the caller's header of this name (W3C Trace Context), unchecked.
	Traceparent string
	// Began is the time at which the request came.
	Began time.Time
	// Ready is the time at which authentication began. It is zero if the request was refused before.
	Ready time.Time
	// Sent is the time at which the request was first sent to the API. It is zero if it was not sent.
	Sent time.Time
}

// Refused describes an answer with which the API refused a request.
type Refused struct {
	// Code is the error code of the answer's challenge (RFC 6750 section 3.1, RFC 9449 section 7.1), such as insufficient_scope. It is
	// "" if there is none that is registered.
	Code string
	// Offset is the time that the API's clock is ahead of the gateway's, in whole seconds, by its header Date. It is 0 if that is less
	// than ten seconds, or not known.
	Offset time.Duration
}

// Observe counts the token exchanges of an attempt for its request, and the uses of keys of the store of keys. Set it as Observe
// in the [host.Config] of the hosts whose connectors a gateway serves. Without it, the [Event] and the Server-Timing of a request
// show none of them.
func Observe(ctx context.Context, attempt host.Attempt) {
	e, ok := ctx.Value(exchangesKey{}).(*exchanges)
	if !ok || attempt.Ahead { // the request does not wait for it
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := &e.sum
	sum.Exchanges += attempt.Exchanges
	sum.KeyRequests += attempt.KeyRequests
	sum.TokenTime += attempt.TokenTime
	sum.KeyTime += attempt.KeyTime
	sum.SandboxTime += attempt.SandboxTime
	sum.Fuel += attempt.Fuel
	sum.Cached = sum.Cached || attempt.Cached
	sum.Failure = cmp.Or(attempt.Failure, sum.Failure)
}

// RequestID returns the X-Request-Id of the request for which an [host.Attempt] was made, from the context of the attempt. It is ""
// if the attempt was made for no request of a gateway.
func RequestID(ctx context.Context) string {
	if e, ok := ctx.Value(exchangesKey{}).(*exchanges); ok {
		return e.id
	}
	return ""
}

// exchanges counts the token requests of a call, and the uses of keys of the store of keys. [Observe] and [RequestID] find it in
// the context, and may be called after the call has ended.
type exchanges struct {
	// id is the call's X-Request-Id.
	id string

	mu sync.Mutex
	// sum is [Event].Attempt.
	sum host.Attempt
}

func (e *exchanges) fill(event *Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	event.Attempt = e.sum
}

type exchangesKey struct{}

// observe ends the span of a call that has ended, and calls Config.Observe.
func (c *call) observe() {
	event := c.finalEvent()
	if c.traced != nil {
		c.traced(event)
	}
	c.gateway.config.Observe(event)
}

// finalEvent returns the event of a call that has ended.
func (c *call) finalEvent() Event {
	if c.connector != nil {
		c.event.Connector, c.event.Served = c.connector.definition.Permalink, c.connector
	}
	c.event.Test = c.byOperator || c.tested
	c.event.Method = c.methodOf(c.event.Method)
	c.exchanges.fill(&c.event)
	c.event.Total = c.gateway.config.Clock().Sub(c.event.Began)
	return c.event
}

func (c *call) methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	if c.connector != nil && slices.Contains(c.connector.definition.Methods, method) {
		return method
	}
	return "OTHER"
}

// refusalCodes are the error codes of challenges that are registered, RFC 6750 section 3.1, RFC 9449 section 7.1 and RFC 9470 section 3.
var refusalCodes = []string{"invalid_request", "invalid_token", "insufficient_scope", "invalid_dpop_proof", "use_dpop_nonce", "insufficient_user_authentication"}

// refusedBy returns what an answer of the API with the status 400, 401 or 403 says about the refusal.
func refusedBy(response *http.Response, now time.Time) (r Refused) {
	const leastOffset = 10 * time.Second // the least time between two clocks that counts. The network takes some seconds
	if !slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}, response.StatusCode) {
		return Refused{}
	}
	for _, challenge := range response.Header["Www-Authenticate"] {
		for _, code := range refusalCodes {
			if strings.Contains(challenge, `error="`+code+`"`) {
				r.Code = code
			}
		}
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil && response.Header.Get("Age") == "" { // not that of a cache
		if offset := date.Sub(now).Truncate(time.Second); offset.Abs() >= leastOffset {
			r.Offset = offset
		}
	}
	return r
}

// LogHandler returns a handler that adds the X-Request-Id, as request_id, to what is logged for a request of a gateway. Set a
// logger with it as Logger in the [host.Config] of the hosts whose connectors a gateway serves.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if e, ok := ctx.Value(exchangesKey{}).(*exchanges); ok {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", e.id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// way implements [trial.Way].
func (e *Event) way() (way []trial.Step) {
	end := e.Began.Add(e.Total)
	ready, answered := e.Ready, e.Sent.Add(e.Upstream)
	if e.Ready.IsZero() {
		ready = end
	}
	if e.Sent.IsZero() {
		answered = end
	}
	failed := e.failedStep()
	add := func(name string, reached bool, took time.Duration) {
		reached = reached || failed == name
		if reached || name != trial.StepKey && name != trial.StepToken {
			way = append(way, trial.Step{Name: name, Milliseconds: milliseconds(max(0, took)), Failed: failed == name, Skipped: !reached})
		}
	}
	add(trial.StepRequest, true, ready.Sub(e.Began))
	add(trial.StepAuthentication, !e.Ready.IsZero(), answered.Sub(ready)-e.API-e.Attempt.TokenTime-e.Attempt.KeyTime)
	add(trial.StepKey, e.Attempt.KeyRequests > 0, e.Attempt.KeyTime)
	add(trial.StepToken, e.Attempt.Exchanges > 0, e.Attempt.TokenTime)
	add(trial.StepAPI, !e.Sent.IsZero(), e.API)
	add(trial.StepAnswer, e.UpstreamStatus != 0, end.Sub(answered))
	return way
}

// failedStep returns the name of the step at which the request failed, or at which the API refused it. It returns "" for neither.
func (e *Event) failedStep() string {
	switch {
	case e.Problem == "" && e.FailedAt() == "":
		return ""
	case e.Stage == string(host.StageToken):
		return trial.StepToken
	case e.Problem != "" && e.Ready.IsZero():
		return trial.StepRequest
	case e.Stage != "" && e.Stage != string(host.StageResponse):
		return trial.StepAuthentication
	case e.Problem != "" && e.UpstreamStatus != 0:
		return trial.StepAnswer
	}
	return trial.StepAPI
}

// FailedAt returns where a request failed: the [host.Stage] of authentication, the problem, such as upstream-failed, or API if that refused
// the request or failed itself. It returns "" if the request did not fail, if the mistake is the caller's, or if the user has not connected.
func (e *Event) FailedAt() string {
	switch {
	case e.NotConnected():
		return ""
	case e.Stage != "":
		return e.Stage
	case e.Problem != "" && e.Status >= http.StatusInternalServerError:
		return e.Problem
	case e.Problem == "" && (e.Refusal != Refused{} || e.Status >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, e.Status)):
		return "API"
	}
	return ""
}

// NotConnected reports whether the request was refused because its user has not connected an account. A grant that was revoked or lost
// is another matter.
func (e *Event) NotConnected() bool {
	return e.Problem == "not-connected" && !errors.As(e.Err, new(*host.GrantError))
}

// Remedy says in a sentence or two what the likely reason of a failure is, and what to do about it. It returns "" if it knows none, or if
// FailedAt does, unless an operator's test named a path that the connector does not have. It is for operators, and has nothing of the user.
func (e *Event) Remedy() string {
	if e.NotConnected() {
		return remedy.Of(remedy.Fault{Err: &host.GrantError{User: e.User, Condition: host.ConditionNotConnected}})
	}
	if e.Test && e.Problem == "unknown-path" {
		return "No path of the connector matches: add the path to the connector's paths, or send another one."
	}
	step := e.FailedAt()
	if step == "" {
		return ""
	}
	return remedy.Of(remedy.Fault{
		Err: e.Err, Plugin: e.Attempt.Failure, Late: e.Problem == "upstream-timeout", Status: e.Status, Code: e.Refusal.Code, Offset: e.Refusal.Offset,
	})
}
