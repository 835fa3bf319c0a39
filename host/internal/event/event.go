// Package event has what a connector does for its requests as one stream of events. Package host makes of it the spans of a Tracer, the
// attempts of Observe, and the steps of a Trace.
package event

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/mask"
	"github.com/keywright/keywright/host/view"
)

// The names of spans, see host.Tracer.
const (
	Request      = "request"
	Authenticate = "authenticate"
	Refresh      = "refresh"
	Consent      = "consent"
	Discover     = "discover"
	Wait         = "wait"
	Exchange     = "exchange"
	Key          = "key"
	Send         = "send"
)

// The reasons of waits, see host.Tracer.
const (
	AwaitRequest = "request"
	AwaitNode    = "node"
	AwaitTurn    = "turn"
	AwaitPlace   = "place"
)

// Span is a part of the work that begins. host.Span.Attributes has its fields.
type Span struct {
	Name                 string
	Second               bool
	Method, Scheme, Host string
	Field                string
	Awaits               string
	Export               string
}

// End is the end of a span.
type End struct {
	// Err is the error in place of a result, the refusal of a token endpoint, or nil.
	Err error
	// Status is the HTTP status of the answer, or 0.
	Status int
	// Attempt is nil unless the span is that of an attempt.
	Attempt *Attempt
}

// Stream takes the events of a connector. A nil *Stream takes none.
type Stream struct {
	// If not nil, Begin begins a span. It returns the context for what happens within it and the function that ends it, or nil.
	Begin func(context.Context, Span) (context.Context, func(End))
	// If not nil, Observe is called with each attempt that has ended.
	Observe func(context.Context, Attempt, error)
}

// HasSpans reports whether somebody makes spans.
func (s *Stream) HasSpans() bool { return s != nil && s.Begin != nil }

// Start begins a span. If nobody makes spans, it returns ctx and the zero OpenSpan, and allocates nothing.
func (s *Stream) Start(ctx context.Context, span Span) (spanCtx context.Context, open OpenSpan) {
	if !s.HasSpans() {
		return ctx, OpenSpan{}
	}
	spanCtx, open.end = s.Begin(ctx, span)
	return spanCtx, open
}

// OpenSpan is a span that has begun. The zero OpenSpan is none.
type OpenSpan struct{ end func(End) }

// Exists reports whether o is a span.
func (o OpenSpan) Exists() bool { return o.end != nil }

// End ends the span.
func (o OpenSpan) End(e End) {
	if o.end != nil {
		o.end(e)
	}
}

// Attempt has the figures of an attempt to authenticate a request, or of a call of a plugin for none. They are those of host.Attempt.
type Attempt struct {
	stream *Stream
	span   OpenSpan

	Runs           int
	Fuel, MostFuel int64
	SandboxTime    time.Duration
	Failure        string
	Exchanges      int
	TokenTime      time.Duration
	Endpoint       string
	Discoveries    int
	KeyRequests    int
	KeyTime        time.Duration
	Cached, Reused bool
	Expires        time.Time
	Ahead, Consent bool
}

// Attempt returns an attempt.
func (s *Stream) Attempt() Attempt { return Attempt{stream: s} }

// Begin begins the span of the attempt.
func (a *Attempt) Begin(ctx context.Context, span Span) (spanCtx context.Context) {
	spanCtx, a.span = a.stream.Start(ctx, span)
	return spanCtx
}

// End ends the span of the attempt.
func (a *Attempt) End(err error) {
	if a.span.Exists() {
		figures := *a // another variable, so that a stays on the stack of each request
		a.span.End(End{Err: err, Attempt: &figures})
	}
}

// Observe reports the attempt.
func (a *Attempt) Observe(ctx context.Context, err error) {
	if a.stream != nil && a.stream.Observe != nil {
		a.stream.Observe(ctx, *a, err)
	}
}

// Trace records the exchanges with token endpoints and the answers of the API to the requests of a context, masked. A nil *Trace is
// none: Exchange and AsksAnew may be called for it. It is safe for concurrent use.
type Trace struct {
	mu sync.Mutex
	// descriptions and askAnew are the options of host.Trace.
	descriptions, askAnew bool

	masker mask.Masker
	// steps has each view.Exchange and each view.Answer of the API, in order.
	steps []fmt.Stringer
}

type traceKey struct{}

// WithTrace returns a context whose requests t records. A nil t hides the trace of ctx.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context, or nil.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// With sets the options of t, and returns t.
func (t *Trace) With(descriptions, askAnew bool) *Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.descriptions, t.askAnew = descriptions, askAnew
	return t
}

// Steps returns the steps so far, in order.
func (t *Trace) Steps() []fmt.Stringer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.steps)
}

// AsksAnew reports whether token endpoints are asked although the host remembers a refusal. It returns false if t is nil.
func (t *Trace) AsksAnew() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.askAnew
}

// Exchange records an exchange with its answer, which exchange masks.
func (t *Trace) Exchange(exchange func(m *mask.Masker, descriptions bool) view.Exchange) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, exchange(&t.masker, t.descriptions))
}

// Answer records an answer of the API, or the error in place of one. list says what the plugin reads of it.
func (t *Trace) Answer(list []answer.Part, status int, header http.Header, body []byte, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.masker.Answer(list, status, header, body)
	mask.Took(&a, took, err)
	t.steps = append(t.steps, a)
}
