package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
)

// call is one request of a caller. Its methods take the request to the API and the answer back:
//
//	send
//	├─ RoundTrip, below the connector's transport, which authenticates
//	├─ answer
//	│  └─ shapeResponse
//	└─ pass
type call struct {
	gateway   *Gateway
	connector *Connector
	id        string
	// tried is set when an operator tries the connector.
	tried bool
	// asked is the URL that the caller asked for.
	asked *url.URL
	// body is the caller's, if an expression may ask for it.
	body   []byte
	out    *Outgoing
	cancel context.CancelCauseFunc

	event     Event
	exchanges exchanges

	began time.Time
	// sent is when the API was asked first. It is zero if it was not.
	sent time.Time
	// answered is when the API's answer began.
	answered time.Time
}

// exchanges counts the token requests of a call. It is in the context, where Observe finds it; that may be late.
type exchanges struct {
	count atomic.Int64
	// took is how many nanoseconds they took.
	took atomic.Int64
}

type exchangesKey struct{}

// observe reports a call that has ended.
func (c *call) observe() {
	observe := c.gateway.config.Observe
	if observe == nil {
		return
	}
	if c.connector != nil {
		c.event.Connector = c.connector.Permalink
	}
	c.event.ID, c.event.Began, c.event.Sent, c.event.Exchanges = c.id, c.began, c.sent, int(c.exchanges.count.Load())
	c.event.Total = c.gateway.config.Clock().Sub(c.began)
	if !c.answered.IsZero() {
		c.event.Upstream = c.answered.Sub(c.sent)
	}
	observe(c.event)
}

// context returns the context of the request to the API. cancel ends it.
func (c *call) context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, exchangesKey{}, &c.exchanges))
	c.cancel = cancel
	return ctx
}

// send sends the request to the API, and the answer to the caller. It changes r, and takes from it the method, the body and the
// context. An error means that nothing has been written.
//
// Callers get neither 1xx responses nor trailers: their headers have not been through the list of those that pass.
func (c *call) send(w http.ResponseWriter, r *http.Request) error {
	r.URL, r.Host, r.Close = c.out.URL, "", false
	r.Header, r.Trailer = c.out.Header, nil
	if s := c.connector.shapes; s.filter != nil || s.response != nil {
		r.Header.Del("Range") // a part of an answer cannot be looked at
	}
	if len(r.Header["Accept-Encoding"]) == 0 {
		r.Header["Accept-Encoding"] = []string{"identity"} // without it, any would do
	}
	if r.ContentLength == 0 {
		r.Body = nil // or a 401 could not be answered by sending the request again
	}
	response, err := c.connector.Upstream.GuardedTransport(c).RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // which answer may replace
	buffer := c.gateway.buffers.get()
	defer c.gateway.buffers.put(buffer)
	if err := c.answer(response, buffer); err != nil {
		return err
	}
	c.pass(w, response, buffer)
	return nil
}

var errUpstreamTime = errors.New("the API took longer than timeout")

// RoundTrip implements [http.RoundTripper]. The connector's transport calls it with the authenticated request. It measures the
// API's time, and ends a request whose answer does not begin, or does not go on, within the connector's timeout.
func (c *call) RoundTrip(r *http.Request) (*http.Response, error) {
	if added, ok := strings.CutPrefix(r.URL.RawQuery, c.out.URL.RawQuery); !ok || repeats(added, c.out.URL.RawQuery) {
		return nil, errRepeated
	}
	base, timeout := c.gateway.config.Base, c.connector.Timeout
	if base == nil {
		base = c.connector.host.Base()
	}
	now := c.gateway.config.Clock()
	if c.sent.IsZero() {
		c.sent = now
	}
	timer := time.AfterFunc(timeout, func() { c.cancel(errUpstreamTime) })
	var sending *waiting
	if r.Body != nil && r.Body != http.NoBody {
		sending = &waiting{ReadCloser: r.Body, timer: timer, timeout: timeout}
		r.Body = sending
	}
	response, err := base.RoundTrip(r)
	c.answered = c.gateway.config.Clock()
	sending.end()
	timer.Stop()
	if err != nil {
		return nil, err
	}
	response.Body = &stalling{response.Body, timer, timeout}
	return response, nil
}

var errRepeated = &httpProblem{
	status: http.StatusBadGateway, kind: "authentication-failed", stage: string(host.StageMutation), detail: "the request could not be authenticated, and was not sent",
	cause: errors.New("the definition's query has a parameter of the name that the credential has: servers differ in which one counts"),
}

// repeats reports whether what authenticating has added to a query names a parameter that was there already
// (threats.md 43).
func repeats(added, query string) bool {
	if added == "" || query == "" {
		return false
	}
	for one := range strings.SplitSeq(strings.TrimPrefix(added, "&"), "&") {
		for other := range strings.SplitSeq(query, "&") {
			if strings.EqualFold(parameterName(one), parameterName(other)) {
				return true
			}
		}
	}
	return false
}

func parameterName(text string) string {
	escaped, _, _ := strings.Cut(text, "=")
	if name, err := url.QueryUnescape(escaped); err == nil {
		return name
	}
	return escaped
}

// waiting is a caller's body. While the API waits for a piece of it, its time does not count.
type waiting struct {
	io.ReadCloser
	timeout time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once there is an answer, which has the timer from then on
}

func (w *waiting) Read(p []byte) (int, error) {
	w.mu.Lock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Reset(w.timeout)
	}
	return n, err
}

func (w *waiting) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
}

// stalling is an answer's body, for each piece of which its reader waits for so long, and no longer.
type stalling struct {
	io.ReadCloser
	timer   *time.Timer
	timeout time.Duration
}

func (s *stalling) Read(p []byte) (int, error) {
	s.timer.Reset(s.timeout)
	n, err := s.ReadCloser.Read(p)
	s.timer.Stop() // who reads it may take longer
	return n, err
}

func (s *stalling) Close() error {
	s.timer.Stop()
	return s.ReadCloser.Close()
}

// incomingBody is a caller's body. Its errors are problems of the caller, not of the API.
type incomingBody struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *incomingBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	var large *http.MaxBytesError
	if err != nil && err != io.EOF && !errors.As(err, &large) {
		err = &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "the body broke off, or is not well formed", cause: fmt.Errorf("the caller's body: %w", err)}
	}
	return n, err
}

// Close makes Read fail. A transport may read on once the handler has returned, which net/http forbids. Close does not close the
// caller's body, which could wait for bytes that do not come; the server does that.
func (b *incomingBody) Close() error {
	b.closed.Store(true)
	return nil
}
