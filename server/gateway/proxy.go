package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
)

// call is one request of a caller.
type call struct {
	gateway   *Gateway
	connector *Connector
	id        string
	tried     bool     // by an operator
	asked     *url.URL // by the caller
	body      []byte   // the caller's, when an expression may ask for it
	out       *Outgoing
	cancel    context.CancelCauseFunc

	event     Event
	token     atomic.Int64 // nanoseconds that token endpoints took
	exchanges atomic.Int64 // of tokens; one may be told of late

	began    time.Time
	sent     time.Time // when the upstream was asked first; zero if it was not
	answered time.Time // when its answer had begun
}

type callKey struct{}

// observe reports a call that has ended.
func (c *call) observe() {
	observe := c.gateway.config.Observe
	if observe == nil {
		return
	}
	if c.connector != nil {
		c.event.Connector = c.connector.Permalink
	}
	c.event.ID, c.event.Began, c.event.Sent, c.event.Exchanges = c.id, c.began, c.sent, int(c.exchanges.Load())
	c.event.Total = c.gateway.config.Clock().Sub(c.began)
	if !c.answered.IsZero() {
		c.event.Upstream = c.answered.Sub(c.sent)
	}
	observe(c.event)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// proxy sends a connector's requests. What it sends is what serve has made: nothing of the caller's request gets there by
// itself.
func (g *Gateway) proxy(c *Connector) *httputil.ReverseProxy {
	base := g.config.Base
	if base == nil {
		base = c.host.Base()
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			out := callOf(r.In.Context()).out
			r.Out.URL, r.Out.Host = out.URL, ""
			r.Out.Header = out.Header
			if s := callOf(r.In.Context()).connector.shapes; s.filter != nil || s.response != nil {
				r.Out.Header.Del("Range") // a part of an answer cannot be looked at
			}
			if len(out.Header["Accept-Encoding"]) == 0 {
				r.Out.Header.Set("Accept-Encoding", "identity") // without it, any would do
			}
			r.Out.Trailer = nil
		},
		Transport:      c.Upstream.GuardedTransport(upstream{base, c.Timeout}),
		ModifyResponse: g.answer,
		BufferPool:     &g.buffers,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { callOf(r.Context()).fail(w, r, err) },
		ErrorLog:       log.New(io.Discard, "", 0), // answers that break off are told of by their bodies
	}
}

// buffers is a pool of buffers for copying bodies: a new one for each would be most of the cost of a short answer.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }

// upstream is the transport below a connector's: it takes the time, and ends a request whose answer does not begin, or
// does not go on, within the connector's timeout.
type upstream struct {
	base    http.RoundTripper
	timeout time.Duration
}

var errUpstreamTime = errors.New("the API took longer than timeout")

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	c := callOf(r.Context())
	if added, ok := strings.CutPrefix(r.URL.RawQuery, c.out.URL.RawQuery); !ok || repeats(added, c.out.URL.RawQuery) {
		return nil, errRepeated
	}
	now := c.gateway.config.Clock()
	if c.sent.IsZero() {
		c.sent = now
	}
	timer := time.AfterFunc(u.timeout, func() { c.cancel(errUpstreamTime) })
	var sending *waiting
	if r.Body != nil && r.Body != http.NoBody {
		sending = &waiting{ReadCloser: r.Body, timer: timer, timeout: u.timeout}
		r.Body = sending
	}
	response, err := u.base.RoundTrip(r)
	c.answered = c.gateway.config.Clock()
	sending.end()
	timer.Stop()
	if err != nil {
		return nil, err
	}
	response.Body = &stalling{response.Body, timer, u.timeout}
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

// incomingBody is a caller's body. That it is bad is not the API's fault.
type incomingBody struct{ io.ReadCloser }

func (b incomingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var large *http.MaxBytesError
	if err != nil && err != io.EOF && !errors.As(err, &large) {
		err = &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "the body broke off, or is not well formed", cause: fmt.Errorf("the caller's body: %w", err)}
	}
	return n, err
}

// passed are the headers of an answer that callers get (threats.md 45). What an API says besides, in headers of its own,
// may be about the account that the connector uses.
var passed = []string{
	"Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Disposition", "Content-Language", "Content-Length", "Content-Location",
	"Content-Range", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After", "Vary",
}

// answer shapes an upstream's answer.
func (g *Gateway) answer(response *http.Response) error {
	c := callOf(response.Request.Context())
	if response.StatusCode < 200 || response.StatusCode > 599 {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer has a status that none has"}
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") && response.Body != http.NoBody {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer is encoded, though that was not asked for"}
	}
	header := http.Header{}
	for _, name := range passed {
		if values, ok := response.Header[name]; ok {
			header[name] = values
		}
	}
	private(header)
	header.Set("Server-Timing", c.timing())
	response.Header, response.Trailer = header, nil
	c.event.Status = response.StatusCode
	if shaped, err := c.shapeResponse(response); shaped {
		return err
	}
	if err := lookedAt(response); err != nil {
		return err
	}
	response.Body = &cutOff{response.Body, response.Request.Context()}
	return nil
}

// cutOff is a body that its caller gets while it comes. When it ends before its end, only operators can be told why.
type cutOff struct {
	io.ReadCloser
	ctx context.Context // here because Read has none
}

func (b *cutOff) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if c := callOf(b.ctx); err != nil && !errors.Is(err, io.EOF) && c.event.Problem == "" {
		c.tell(b.ctx, c.problem(b.ctx, err))
	}
	return n, err
}

// maxLookedAt is how many bytes of an answer are looked at before its header is sent.
const maxLookedAt = 64 << 10

// lookedAt reads an answer that is short, and whose length is known, before its header is sent: one that holds the credential
// (threats.md 45) is a problem then, and not an answer that breaks off.
func lookedAt(response *http.Response) error {
	if response.ContentLength <= 0 || response.ContentLength > maxLookedAt || response.Request.Method == http.MethodHead {
		return nil
	}
	var body bytes.Buffer
	body.Grow(int(response.ContentLength) + bytes.MinRead)
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(&body)
	return nil
}

// private keeps an answer from caches that serve others (threats.md 47).
func private(h http.Header) {
	h.Add("Vary", "Authorization, Cookie")
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = []string{"private"}
		return
	}
	directives := []string{"private"}
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			directive = strings.ToLower(strings.TrimSpace(directive))
			name, _, _ := strings.Cut(directive, "=")
			if directive != "" && !slices.Contains([]string{"public", "private", "s-maxage", "stale-while-revalidate"}, name) {
				directives = append(directives, directive)
			}
		}
	}
	h.Set("Cache-Control", strings.Join(directives, ", "))
}
