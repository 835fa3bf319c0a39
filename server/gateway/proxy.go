package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/urlcheck"
)

// call handles one request of a caller. Its methods pass the request to the API and the answer back:
//
//	send
//	├─ RoundTrip, below the connector's transport, which authenticates
//	├─ answer
//	│  └─ shapeResponse
//	└─ pass
type call struct {
	gateway   *Gateway
	connector *Connector
	// byOperator reports whether the caller is an operator who asks for a test: problems have their cause.
	byOperator bool
	// tested reports whether the request is that of [Gateway.runTest].
	tested bool
	// page is the visit of a person, who gets problems as a page, or nil.
	page *visit
	// callerURL is the URL of the caller's request.
	callerURL *url.URL
	// body is the caller's body if the definition has the template request. Otherwise it is nil.
	body []byte
	out  *outgoing
	// sentBody returns the body for the API, if that is in memory.
	sentBody func() (io.ReadCloser, error)
	// failure is the last problem, or nil.
	failure *httpProblem
	cancel  context.CancelCauseFunc
	// passing is set as soon as the caller gets what the API sends.
	passing bool
	// noRecords reports whether the API's answer has no records for the filter, not even an empty list.
	noRecords bool
	// undecoded is the error of undoing the content codings of the API's last answer, or nil.
	undecoded error
	// ends reports whether the API's answer is of a known length, as it is sent.
	ends bool

	// event is that of the call as far as it has come. Its Method is the caller's until [call.finalEvent].
	event     Event
	exchanges exchanges
	// traced is the function that [Config].Trace has returned, or nil.
	traced func(Event)
}

// newCall returns a call for a request, and sets the headers that all answers have, problems too.
func (g *Gateway) newCall(r *http.Request, header http.Header) *call {
	c := &call{gateway: g, event: Event{ID: requestID(r), Method: r.Method, Began: g.config.Clock()}}
	header["X-Request-Id"] = []string{c.event.ID}
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noPage
	return c
}

// send sends the request to the API, and its answer to the caller. It modifies r, of which it uses the method, the body and
// the context. If it returns an error, it has written nothing.
//
// Callers get neither 1xx responses nor trailers, because their headers have not been checked against the list of those that pass.
func (c *call) send(w http.ResponseWriter, r *http.Request) error {
	r.URL, r.Host, r.Close = c.out.URL, "", false
	r.Header, r.Trailer = c.out.Header, nil
	if s := c.connector.shapes; s.filter != nil || s.response != nil {
		r.Header.Del("Range") // part of an answer can be neither filtered nor shaped
	}
	if len(r.Header["Accept-Encoding"]) == 0 {
		r.Header["Accept-Encoding"] = unencoded // without the header, the API may choose any encoding
	}
	if r.ContentLength == 0 {
		r.Body = nil // so that the host can send the request again after a 401
	}
	response, err := c.connector.upstream.GuardedTransport(c).RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // a closure, because answer may replace the body
	if c.undecoded != nil {
		return c.undecoded
	}
	buf := c.gateway.buffers.Get().(*buffer) //nolint:forcetypeassert // of its New
	defer c.gateway.buffers.Put(buf)
	if err := c.answer(response, buf); err != nil {
		return err
	}
	c.pass(w, response, buf)
	return nil
}

var errUpstreamTime = errors.New("the API took longer than timeout")

// RoundTrip implements [http.RoundTripper]. The connector's transport calls it with the authenticated request. RoundTrip
// measures the API's time, and cancels the request if the answer does not begin or continue within the connector's timeout.
func (c *call) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := c.base(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	now := c.gateway.config.Clock()
	if c.event.Sent.IsZero() {
		c.event.Sent = now
	}
	c.event.Sends++
	timeout := c.connector.definition.Timeout
	timer := time.AfterFunc(timeout, func() { c.cancel(errUpstreamTime) })
	sending := &waiting{ReadCloser: r.Body, timer: timer, timeout: timeout}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = sending
	}
	response, err := base.RoundTrip(r)
	answered := c.gateway.config.Clock()
	c.event.API += answered.Sub(now)
	c.event.Upstream = answered.Sub(c.event.Sent)
	sending.end()
	timer.Stop()
	if err != nil {
		return nil, err
	}
	c.event.UpstreamStatus = response.StatusCode
	if isEventStream(response.Header) {
		timeout = c.connector.definition.Streams.Silence
	}
	if response.Body != nil && response.Body != http.NoBody { // the host and answer recognise an answer without a body by http.NoBody
		response.Body = &stalling{ReadCloser: response.Body, timer: timer, timeout: timeout, passing: &c.passing}
	}
	c.ends = response.ContentLength >= 0
	response.Request, c.undecoded = r, nil
	if len(response.Header["Content-Encoding"]) > 0 { // the host still gets an answer that cannot be passed on: with a 401, it drops the token
		c.undecoded = answers.Decode(response, c.gateway.codings(c.connector.definition.Permalink))
	}
	return response, nil
}

// base returns the transport for an authenticated request, or an error if the request must not be sent.
func (c *call) base(r *http.Request) (http.RoundTripper, error) {
	base, own := c.gateway.config.Base, c.connector.definition.TLS
	added, ok := strings.CutPrefix(r.URL.RawQuery, c.out.URL.RawQuery)
	switch {
	case !ok || repeats(added, c.out.URL.RawQuery):
		return nil, unauthenticated(host.StageMutation, errors.New("the definition's query has a parameter of the name that the credential has: servers differ in which one counts"))
	case base == nil:
		return c.connector.upstream.Base(), nil
	case own != nil && (len(own.For) == 0 || slices.Contains(own.For, host.TLSForAPI)) || c.connector.definition.Egress != nil:
		return nil, unauthenticated(host.StageConfig, errors.New("tls and egress need the transport of the host, and Config.Base of the gateway takes its place: leave one of them out"))
	}
	return base, nil
}

// repeats reports whether added, the part of a query that authentication has added, has a parameter that an API may take for one of the
// query (threats.md 43).
func repeats(added, query string) bool {
	if added == "" || query == "" {
		return false
	}
	for one := range strings.SplitSeq(strings.TrimPrefix(added, "&"), "&") {
		name := urlcheck.MemberName(one)
		for param := range strings.SplitSeq(query, "&") {
			if urlcheck.MayBeMember(urlcheck.MemberName(param), name) {
				return true
			}
		}
	}
	return false
}

// waiting wraps a caller's body. It stops the API's timer while it waits for the caller.
type waiting struct {
	io.ReadCloser
	timeout time.Duration

	mu sync.Mutex
	// timer is nil from the start of the answer on, because stalling uses the timer then.
	timer *time.Timer
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

// end makes later reads leave the timer alone.
func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
}

// stalling wraps an answer's body. Its timer limits each read while the answer passes to the caller. Before, the gateway reads for
// itself, and the timer limits the reads of each piece together, since an API that drips must hold no request (threats.md 320).
type stalling struct {
	io.ReadCloser
	timer   *time.Timer
	timeout time.Duration
	passing *bool
	// remaining is the time for the rest of the piece, which is of rest bytes.
	remaining time.Duration
	rest      int
}

func (s *stalling) Read(p []byte) (int, error) {
	const pieceBytes = 64 << 10 // the bytes of an answer that the gateway has to get within the connector's timeout
	if *s.passing || s.rest <= 0 {
		s.remaining, s.rest = s.timeout, pieceBytes
	}
	began := time.Now()
	s.timer.Reset(s.remaining)
	n, err := s.ReadCloser.Read(p)
	s.timer.Stop() // the time of the reader does not count
	s.remaining -= time.Since(began)
	s.rest -= n
	return n, err
}

func (s *stalling) Close() error {
	s.timer.Stop()
	return s.ReadCloser.Close()
}

// incomingBody wraps a caller's body. It turns read errors into problems of the caller, so that they do not count as the API's.
type incomingBody struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *incomingBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.As(err, new(*http.MaxBytesError)) {
		err = &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "the body broke off, or is not well formed", cause: fmt.Errorf("the caller's body: %w", err)}
	}
	return n, err
}

// Close makes later reads fail. Without it, a transport may continue to read after the handler has returned, which net/http
// forbids. Close does not close the caller's body, because that may wait for bytes that never come. The server closes it.
func (b *incomingBody) Close() error {
	b.closed.Store(true)
	return nil
}
