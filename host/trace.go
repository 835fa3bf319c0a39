package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// Trace records what a request of a [Connector] makes the host send and get. Put it into the context of the request with
// [WithTrace]. The zero value is ready for use. A Trace is safe for concurrent use.
//
// It holds no secret, token, code, assertion or key, and, without Descriptions, no text that only an answer has. The masked texts begin with masked- and
// a number. User names and other values of templates that are no secrets show as in an [Explanation].
type Trace struct {
	// Descriptions asks for the error_description of each refusal of a token endpoint. The endpoint wrote that text: show it to the
	// operator who asked, and keep it out of logs and answers to callers.
	Descriptions bool
	// AskAnew asks token endpoints although the host remembers that they have refused the same request ([TokenError].RetryAfter), unless
	// that is less than a second ago. It is for an operator who has repaired something: each request may count as a failed login there.
	AskAnew bool

	mu     sync.Mutex
	masker hostfn.Masker
	// steps has the exchanges and the API's answers, in order. One of both is nil.
	steps []tracedStep
}

type tracedStep struct {
	exchange *TracedExchange
	answer   *TracedAnswer
}

// TracedExchange is a request that was sent to a token endpoint, and its answer, both masked.
type TracedExchange struct {
	// The request is as an [Explanation] shows it.
	ExplainedExchange
	Answer TracedAnswer `json:"answer"`
}

// TracedAnswer is an answer of a token endpoint or the API, masked: its texts are replaced by made-up ones. Numbers, booleans,
// times, and words that a standard or the plugin's description lists stay.
type TracedAnswer struct {
	// Status is the HTTP status. It is 0 if there is no answer.
	Status int `json:"status"`
	// Error is the error if there is no answer, or not all of it, or "". It holds no credential.
	Error string `json:"error,omitempty"`
	// Headers are sorted by name. A header whose value is not shown has an empty one.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Body is the masked body if it is JSON or a form, or "". Of the API's answers, there is a body only if the plugin reads it. Length
	// is the length of the whole body in bytes, if it was read.
	Body   string `json:"body,omitempty"`
	Length int    `json:"length,omitempty"`
	// Description is the error_description of a token endpoint (RFC 6749 section 5.2) if [Trace].Descriptions is set, or "". It is
	// printable, cut after 500 bytes, and not masked. One that holds a secret or a sealed value of the call is not there.
	Description string `json:"error_description,omitempty"`
	// Milliseconds is the time until the answer, by the host's clock.
	Milliseconds float64 `json:"milliseconds"`
}

type traceKey struct{}

// WithTrace returns a context with whose requests t records the exchanges with token endpoints and the answers of the API. A request
// that gets its token from the cache, or that waits for the exchange of another request, records no exchange.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// traceFrom returns the trace of a context, or nil.
func traceFrom(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// Exchanges returns the exchanges so far, in order.
func (t *Trace) Exchanges() []TracedExchange {
	all := []TracedExchange{}
	for _, step := range t.all() {
		if step.exchange != nil {
			all = append(all, *step.exchange)
		}
	}
	return all
}

// Answers returns the API's answers so far, one for each time that the request was sent.
func (t *Trace) Answers() []TracedAnswer {
	all := []TracedAnswer{}
	for _, step := range t.all() {
		if step.answer != nil {
			all = append(all, *step.answer)
		}
	}
	return all
}

// String returns the trace for people to read: exchanges and the API's answers in order, each with a line that says what it is, and
// then its text with two spaces before each line. Control characters are escaped.
func (t *Trace) String() string {
	var b strings.Builder
	for _, step := range t.all() {
		if step.exchange != nil {
			b.WriteString(step.exchange.String())
		} else {
			b.WriteString("the request to the API\n" + step.answer.String())
		}
	}
	return b.String()
}

func (t *Trace) all() []tracedStep {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.steps)
}

// asksAnew reports whether t is not nil and has AskAnew.
func (t *Trace) asksAnew() bool { return t != nil && t.AskAnew }

// recorder returns the function that records the exchanges of a call, or nil.
func (t *Trace) recorder() func(*hostfn.Traced, func(*hostfn.Masker)) {
	if t == nil {
		return nil
	}
	return func(sent *hostfn.Traced, mask func(*hostfn.Masker)) {
		t.mu.Lock()
		defer t.mu.Unlock()
		mask(&t.masker)
		e := &TracedExchange{Answer: answerOf(sent.Answer, sent.Took, sent.Err)}
		if t.Descriptions {
			e.Answer.Description = sent.Description()
		}
		if sent.Request != nil {
			e.ExplainedExchange = ExplainedExchange(*sent.Request)
		}
		t.steps = append(t.steps, tracedStep{exchange: e})
	}
}

// answered records an answer of the API, or the error in place of one.
func (t *Trace) answered(c *Connector, response *http.Response, took time.Duration, err error) {
	var status int
	var header http.Header
	var body []byte
	if response != nil {
		status, header = response.StatusCode, response.Header
		challenge := c.plugin.info.Challenge
		body = beginning(response, challenge != nil && slices.Contains(challenge.Statuses, status) && c.readsBody(), c.host.config.ContentCodings)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := answerOf(c.plan.MaskAnswer(&t.masker, status, header, body), took, err)
	t.steps = append(t.steps, tracedStep{answer: &a})
}

func answerOf(a hostfn.MaskedAnswer, took time.Duration, err error) TracedAnswer {
	t := TracedAnswer{Status: a.Status, Headers: a.Headers, Body: a.Body, Length: a.Length, Milliseconds: float64(took.Microseconds()) / 1000}
	if err != nil {
		t.Error = Printable(err.Error())
	}
	return t
}

// String returns the exchange for people to read: a line that says what it is, and then the request and the answer with two spaces
// before each line. Control characters are escaped.
func (e TracedExchange) String() string {
	return Step{Exchange: &e.ExplainedExchange}.String() + e.Answer.String()
}

// String returns the answer for people to read: a line with the status and the time, and then headers and body with two spaces before
// each line. Control characters are escaped.
func (a TracedAnswer) String() string {
	var b strings.Builder
	line := func(text string) { b.WriteString("  " + Printable(text) + "\n") }
	took := fmt.Sprintf("after %d ms", int64(a.Milliseconds))
	if a.Status == 0 {
		b.WriteString("no answer, " + took + "\n")
	} else {
		b.WriteString(strings.TrimRight(fmt.Sprintf("the answer %d %s", a.Status, http.StatusText(a.Status)), " ") + ", " + took + "\n")
	}
	if a.Error != "" {
		line(a.Error)
	}
	var hidden []string
	for _, pair := range a.Headers {
		if pair.Value == "" {
			hidden = append(hidden, pair.Name)
		} else {
			line(pair.Name + ": " + pair.Value)
		}
	}
	if len(hidden) > 0 {
		line("not shown: " + strings.Join(hidden, ", "))
	}
	switch {
	case a.Body != "":
		line(a.Body)
	case a.Length > 0:
		line(fmt.Sprintf("(a body of %d bytes)", a.Length))
	}
	if a.Description != "" {
		line("the endpoint's error_description: " + a.Description)
	}
	return b.String()
}
