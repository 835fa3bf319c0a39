package gateway

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
)

// Event describes a request and its answer.
type Event struct {
	// ID is the value of the answer's X-Request-Id: the trace ID of the caller's traceparent, or random. It has 32
	// hexadecimal digits.
	ID string
	// Connector is the permalink of the connector. It is "" if the request named no known connector.
	Connector string
	// Method is the method of the caller's request. It is "OTHER" for one that is neither one of net/http nor one of the
	// connector's definition, so that callers cannot make up labels of metrics.
	Method string
	// Pattern is the one of the definition's Paths that allowed the caller's path, as it is in the definition. It is "" if the
	// caller appended no path, or one that is not allowed. At /connect and below it is the path, with {permalink} in place of
	// the connector's.
	Pattern string
	// Tenant is the TenantID of the user, and User the ID. They are "" if the request had no user, or was refused before the
	// user was known. User is personal data.
	Tenant, User string
	// Status is the status of the answer. It is 499 if the caller did not wait for the answer.
	Status int
	// UpstreamStatus is the status of the API's last answer. It is 0 if the API did not answer.
	UpstreamStatus int
	// Problem is the last part of the problem's type, such as upstream-failed; docs/gateway.md lists them. It is also set if
	// the problem cut an answer off. It is "" if there was no problem.
	Problem string
	// Stage is the [host.Stage] at which authentication failed. It is "" if it did not fail.
	Stage string
	// Total is the time from the start of the request until its answer had been written.
	Total time.Duration
	// Upstream is the time from sending the request to the API until the API's answer began, or until sending failed. If the
	// host sent the request again after a 401, it includes both attempts, and the token request between them. It is 0 if
	// nothing was sent.
	Upstream time.Duration
	// Exchanges is the number of token requests that were sent for the request. It is 0 unless the function [Observe] is
	// Observe in the [host.Config] of the connector's host.
	Exchanges int
	// KeyRequests is the number of times that a key of the store of keys was used for the request. Like Exchanges, it needs
	// [Observe].
	KeyRequests int

	// Traceparent is the caller's header of this name (W3C Trace Context), unchecked.
	Traceparent string
	// Began is the time at which the request came.
	Began time.Time
	// Ready is the time at which authentication began. It is zero if the request was refused before.
	Ready time.Time
	// Sent is the time at which the request was first sent to the API. It is zero if it was not sent.
	Sent time.Time
}

// Observe counts the token exchanges of an attempt for its request, and the uses of keys of the store of keys. Set it as Observe
// in the [host.Config] of the hosts whose connectors a gateway serves. Without it, the [Event] and the Server-Timing of a request
// show none of them.
func Observe(ctx context.Context, attempt host.Attempt) {
	if attempt.Ahead { // the request does not wait for it
		return
	}
	if e, ok := ctx.Value(exchangesKey{}).(*exchanges); ok {
		e.count.Add(int64(attempt.Exchanges))
		e.took.Add(int64(attempt.Token))
		e.keys.Add(int64(attempt.KeyRequests))
		e.keysTook.Add(int64(attempt.KeyTime))
	}
}

// exchanges counts the token requests of a call, and the uses of keys of the store of keys. [Observe] and [LogHandler] find it in
// the context, and may be called after the call has ended.
type exchanges struct {
	// id is the call's X-Request-Id.
	id    string
	count atomic.Int64
	// took is the time that they took, in nanoseconds.
	took atomic.Int64
	// keys counts the uses of keys, and keysTook is the time that they took, in nanoseconds.
	keys, keysTook atomic.Int64
}

type exchangesKey struct{}

// observe calls Config.Observe for a call that has ended.
func (c *call) observe() {
	observe := c.gateway.config.Observe
	if observe == nil {
		return
	}
	if c.connector != nil {
		c.event.Connector = c.connector.definition.Permalink
	}
	c.event.Method, c.event.UpstreamStatus = c.methodOf(c.event.Method), c.upstreamStatus
	c.event.ID, c.event.Began, c.event.Sent, c.event.Exchanges = c.id, c.began, c.sent, int(c.exchanges.count.Load())
	c.event.KeyRequests = int(c.exchanges.keys.Load())
	c.event.Total = c.gateway.config.Clock().Sub(c.began)
	if !c.answered.IsZero() {
		c.event.Upstream = c.answered.Sub(c.sent)
	}
	observe(c.event)
}

// methodOf returns the method for [Event].Method.
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
