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
