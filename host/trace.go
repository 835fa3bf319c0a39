package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/view"
)

// Trace records what a request of a [Connector] makes the host send and get. Put it into the context of the request with
// [WithTrace]. The zero value is ready for use. A Trace is safe for concurrent use.
//
// It holds no secret, token, code, assertion or key, and, without Descriptions, no text that only an answer has. The masked texts begin with masked- and
// a number. User names and other values of templates that are no secrets show as in an [Explanation].
type Trace struct {
	// Descriptions asks for the error_description of each refusal of a token endpoint. The endpoint wrote that text: show it to the
	// operator who asked, and keep it out of logs and answers to callers. Set it before WithTrace.
	Descriptions bool
	// AskAnew asks token endpoints although the host remembers that they have refused the same request ([TokenError].RetryAfter), unless
	// that is less than a second ago. It is for an operator who has repaired something: each request may count as a failed login there.
	// Set it before WithTrace.
	AskAnew bool

	record event.Trace
}

// WithTrace returns a context with whose requests t records the exchanges with token endpoints and the answers of the API. A request
// that gets its token from the cache, or that waits for the exchange of another request, records no exchange. If t is
// nil, nothing is recorded, not even by a Trace that ctx has.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return event.WithTrace(ctx, nil)
	}
	return event.WithTrace(ctx, t.record.With(t.Descriptions, t.AskAnew))
}

// Exchanges returns the exchanges so far, in order. Each has its Answer.
func (t *Trace) Exchanges() []view.Exchange { return stepsOf[view.Exchange](t) }

// Answers returns the API's answers so far, one for each time that the request was sent.
func (t *Trace) Answers() []view.Answer { return stepsOf[view.Answer](t) }

// stepsOf returns the steps of a type, in order.
func stepsOf[T fmt.Stringer](t *Trace) []T {
	all := []T{}
	for _, step := range t.record.Steps() {
		if s, ok := step.(T); ok {
			all = append(all, s)
		}
	}
	return all
}

// String returns the trace for people to read: exchanges and the API's answers in order, each with a line that says what it is, and
// then its text with two spaces before each line. Control characters are escaped.
func (t *Trace) String() string {
	var b strings.Builder
	for _, step := range t.record.Steps() {
		if _, ok := step.(view.Answer); ok {
			b.WriteString("the request to the API\n")
		}
		b.WriteString(step.String())
	}
	return b.String()
}
