package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/internal/trial"
)

// runTest implements [trial.Run].
func (g *Gateway) runTest(ctx context.Context, permalink string, t trial.Try) (*trial.Result, error) {
	generation := g.enter()
	defer generation.inFlight.Done()
	connector := generation.connectors[permalink]
	if connector == nil {
		return nil, generation.unknown(permalink)
	}
	result, err := g.testOn(ctx, generation, connector, t)
	if err == nil && t.ClientAuths {
		result = g.tryClientAuths(ctx, generation, connector, t, result)
	}
	return result, err
}

// testOn tests a connector of a generation.
func (g *Gateway) testOn(ctx context.Context, generation *generation, connector *running, t trial.Try) (*trial.Result, error) {
	r, err := connector.newRequest(t)
	if err != nil {
		return nil, err
	}
	r.Host = "localhost"
	for name := range generation.hosts {
		r.Host = name
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if generation.Users != nil || t.User != (trial.User{}) { // without users, the context of a caller has no user
		ctx = host.WithUser(ctx, host.User(t.User))
	}
	trace := &host.Trace{Descriptions: t.ErrorDescription, AskAnew: t.AskAnew}
	w := &testedAnswer{header: http.Header{}, method: r.Method, cancel: cancel}
	c := g.newCall(r, w.header)
	c.tested, c.event.Tenant, c.event.User = true, t.User.TenantID, t.User.ID
	w.serve(func() {
		r := r.WithContext(host.WithTrace(ctx, trace))
		if err := g.serve(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
		}
	})
	event := c.finalEvent()
	result := &trial.Result{
		Connector: connector.definition.Permalink, RequestID: c.event.ID, Status: w.status, Headers: pairsOf(w.sentHeader), Body: w.body.Bytes(), Cut: w.cut,
		Exchanges: trace.Exchanges(), Answers: trace.Answers(), Event: event, Milliseconds: milliseconds(event.Total),
	}
	if c.failure != nil && (w.cut == "" || w.broken) {
		result.Problem, result.Stage, result.Cause = c.failure.kind, c.failure.stage, host.Printable(c.failure.Error())
	}
	if c.noRecords {
		result.NoRecords = fmt.Sprintf("the API's answer has no list %s: the caller gets an empty one; compare response.records with the answer if there should be records", cmp.Or(connector.definition.Response.Records, "of records"))
	}
	result.Request = c.sentRequest(ctx)
	result.Remedy, result.Refusal = event.Remedy(), refusalOf(event.Err)
	g.config.Observe(event)
	setStages(result, event)
	return result, nil
}

// tryClientAuths tests a connector once more with each other way in which its client may authenticate, as long as a token endpoint refuses
// it. It returns the test that was not refused, or else first.
func (g *Gateway) tryClientAuths(ctx context.Context, current *generation, connector *running, t trial.Try, first *trial.Result) *trial.Result {
	index, ways := connector.clientAuths()
	if len(ways) == 0 {
		return first
	}
	best, results := first, []trial.ClientAuth{clientAuthOf(ways[0], first)}
	for i := 1; i < len(ways) && results[len(results)-1].Wrong; i++ {
		d := connector.definition
		d.Auth = slices.Clone(d.Auth)
		d.Auth[index].Config = maps.Clone(d.Auth[index].Config)
		d.Auth[index].Config[clientAuth] = ways[i]
		variant, err := NewConnector(ctx, connector.host, d)
		if err != nil {
			continue // this way needs other fields
		}
		own := &generation{Setup: current.Setup, hosts: current.hosts, connectors: map[string]*running{d.Permalink: {Connector: variant, limits: connector.limits}}}
		result, err := g.testOn(ctx, own, own.connectors[d.Permalink], t)
		if err != nil {
			continue
		}
		if results = append(results, clientAuthOf(ways[i], result)); !results[len(results)-1].Wrong {
			best = result
		}
	}
	best.ClientAuths = results
	return best
}

// clientAuth is the name of the fields of auth types that say how a client authenticates at a token endpoint.
const clientAuth = "client_auth"

// clientAuths returns the values of the first such field of a connector, the one in use first, and the index of its authentication. There
// are none if no auth type of the connector has the field.
func (c *Connector) clientAuths() (index int, ways []string) {
	for i, auth := range c.definition.Auth {
		info, _ := c.host.Plugin(auth.Type)
		for _, field := range info.Fields {
			if field.Name == clientAuth && len(field.Enum) > 0 {
				used, _ := auth.Config[clientAuth].(string)
				used = cmp.Or(used, field.Default)
				rest := slices.DeleteFunc(slices.Clone(field.Enum), func(way string) bool { return way == used })
				return i, append([]string{used}, rest...)
			}
		}
	}
	return 0, nil
}

// clientAuthOf says what came of a test with a value of client_auth.
func clientAuthOf(way string, test *trial.Result) trial.ClientAuth {
	result := trial.ClientAuth{Value: way}
	event, _ := test.Event.(Event)
	refusal, ok := errors.AsType[*host.TokenError](event.Err)
	if ok && refusal.Status/100 == 4 && refusal.Status != http.StatusTooManyRequests {
		result.Wrong, result.Status, result.Code = true, refusal.Status, refusal.Code
	}
	return result
}

// newRequest returns the request of a test, as a caller would send it.
func (c *running) newRequest(t trial.Try) (*http.Request, error) {
	method := cmp.Or(t.Method, c.definition.Methods[0])
	body := t.BodyBytes
	if len(body) == 0 {
		body = []byte(t.Body)
	} else if t.Body != "" {
		return nil, refuse(http.StatusBadRequest, "the test has both body and body_base64")
	}
	r, err := http.NewRequest(method, "http://gateway.invalid/", bytes.NewReader(body)) //nolint:noctx // runTest sets the context
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "that is not a method")
	}
	address := "/connectors/" + c.definition.Permalink
	if path := strings.TrimPrefix(t.Path, "/"); path != "" && path[0] != '?' {
		address += "/" + path
	} else {
		address += path
	}
	if r.URL, err = url.ParseRequestURI(address); err != nil || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, refuse(http.StatusBadRequest, "path is not a path and a query as callers send them: characters such as blanks are percent-encoded there")
	}
	for name, value := range t.Headers {
		r.Header.Set(name, value)
	}
	return r, nil
}

// unknown returns the error for an operator who names a connector that does not exist.
func (g *generation) unknown(permalink string) error {
	hint := ""
	if near, ok := problem.Nearest(permalink, slices.Sorted(maps.Keys(g.connectors))); ok {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return &httpProblem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector" + hint}
}

// sentRequest returns the request as it was sent or would have been sent, masked. It returns nil if there is none, because the test's
// request was refused.
func (c *call) sentRequest(ctx context.Context) *trial.Request {
	if c.out == nil {
		return nil
	}
	masked := c.out.masked
	t := &trial.Request{Method: masked.Method, URL: masked.URL.String(), Dropped: c.out.dropped}
	header := masked.Header
	request := (&http.Request{Method: masked.Method, URL: masked.URL, Header: header}).WithContext(host.WithCredentials(ctx, c.out.credentials...))
	if explained, err := c.connector.upstream.Explain(request); err != nil {
		t.Headers = pairsOf(header)
	} else {
		t.URL, t.Headers, t.Form, t.TLS = explained.URL, explained.Headers, explained.Added.Form, explained.TLS
	}
	if c.sentBody != nil {
		if body, err := c.sentBody(); err == nil {
			excerpt, _ := files.ReadAll(body, maxShown) // the body is in memory
			t.Body = show(excerpt)
		}
	}
	return t
}

// refusalOf returns the remembered refusal that is the reason of an error, or nil.
func refusalOf(err error) *trial.EarlierRefusal {
	last, ok := errors.AsType[*host.TokenError](err)
	if !ok || !last.Remembered {
		return nil
	}
	return &trial.EarlierRefusal{Status: last.Status, Code: last.Code, AgeSeconds: last.Age.Seconds(), RetrySeconds: last.RetryAfter.Seconds()}
}

// setStages sets the stages of a result, those that the request has reached. It has failed at one of them only if there was a problem. The
// times of exchanges are in the trace, whether or not the host has [Observe].
func setStages(r *trial.Result, e Event) {
	if e.Attempt.Exchanges == 0 {
		for _, exchange := range r.Exchanges {
			e.Attempt.Exchanges++
			e.Attempt.TokenTime += time.Duration(math.Round(exchange.Answer.Milliseconds*1000)) * time.Microsecond
		}
	}
	for _, step := range e.way() {
		if step.Failed = step.Failed && r.Problem != ""; !step.Skipped {
			r.Stages = append(r.Stages, step)
		}
	}
}

func pairsOf(header http.Header) []abi.Pair {
	all := []abi.Pair{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			all = append(all, abi.Pair{Name: name, Value: strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	return all
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// testedAnswer takes the answer to a test, as a caller would get it from net/http.
type testedAnswer struct {
	header http.Header
	method string
	// sentHeader has the headers as they were when WriteHeader was called.
	sentHeader http.Header
	status     int
	body       bytes.Buffer
	// cut says why body is not all of the answer, or is "". broken reports whether that is because the answer broke off.
	cut     string
	broken  bool
	flushed bool
	cancel  context.CancelFunc
	timer   *time.Timer
}

// Limits of the answer to a test.
const (
	maxTestBody = 1 << 20
	maxTestTime = 10 * time.Second
)

// serve calls handle, and then completes the answer as net/http does.
func (w *testedAnswer) serve(handle func()) {
	const shortBody = 2 << 10 // the length of an answer up to which net/http adds a Content-Length
	defer func() {
		late := w.timer != nil && !w.timer.Stop()
		switch v := recover(); {
		case v == http.ErrAbortHandler: //nolint:errorlint // net/http compares it in this way
			if late && w.cut == "" {
				w.cut = fmt.Sprintf("the answer went on after %v", maxTestTime)
			}
			w.broken = w.cut == ""
			w.cut = cmp.Or(w.cut, "the answer broke off")
		case v != nil:
			panic(v)
		case !w.flushed && w.sentHeader != nil && w.sentHeader["Content-Length"] == nil && w.body.Len() <= shortBody && bodyAllowed(w.status) && (w.method != http.MethodHead || w.body.Len() > 0):
			w.sentHeader.Set("Content-Length", fmt.Sprint(w.body.Len()))
		}
	}()
	handle()
}

// bodyAllowed reports whether an answer with this status has a body (RFC 9110 section 6.4.1).
func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

func (w *testedAnswer) Header() http.Header { return w.header }

func (w *testedAnswer) WriteHeader(status int) {
	if w.sentHeader != nil {
		return
	}
	w.status, w.sentHeader = status, w.header.Clone()
	w.timer = time.AfterFunc(maxTestTime, w.cancel)
}

func (w *testedAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.method == http.MethodHead {
		return len(p), nil
	}
	if room := maxTestBody - w.body.Len(); len(p) > room {
		w.body.Write(p[:room])
		w.cut = fmt.Sprintf("the answer has more than %d bytes", maxTestBody)
		return room, io.ErrShortWrite
	}
	return w.body.Write(p)
}

func (w *testedAnswer) Flush() { w.flushed = true }

const maxShown = 2 << 10 // bytes of the request's body in a [trial.Result]

// Test returns the handler for operators who test a connector. It must be registered with a pattern that has the wildcard {permalink}, such
// as POST /connectors/{permalink}/test, and must not be reachable for callers. A request has the method, path, headers, body and user of a
// caller as JSON, or no body. The answer is the result as JSON, or a problem document with its cause.
func (g *Gateway) Test() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := g.newCall(r, w.Header())
		c.byOperator = true
		generation := g.enter()
		defer generation.inFlight.Done()
		if err := g.try(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
			c.observe()
		}
	})
}

func (g *Gateway) try(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	connector := generation.connectors[r.PathValue("permalink")]
	if connector == nil {
		return generation.unknown(r.PathValue("permalink"))
	}
	c.connector = connector.Connector
	const maxAround = 64 << 10 // bytes that the JSON of a test may have beside the body
	limit := connector.definition.Limits.RequestBytes
	limit += min(limit+maxAround, math.MaxInt64-limit) // base64 has 4 bytes for 3
	var t trial.Try
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "the body is not JSON with method, path, headers, body and user: %s", host.Printable(err.Error()))
	}
	result, err := g.runTest(r.Context(), r.PathValue("permalink"), t)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(result) // the operator is gone
	return nil
}

// show returns the beginning of a body, up to maxShown bytes. An ellipsis at the end means that the body is longer.
func show(body []byte) string {
	rest := ""
	if len(body) > maxShown {
		body, rest = body[:maxShown], "…"
		for range 3 { // a character that is cut leaves at most 3 bytes
			if r, size := utf8.DecodeLastRune(body); r == utf8.RuneError && size == 1 {
				body = body[:len(body)-1]
			}
		}
	}
	if !utf8.Valid(body) {
		return "<not text>"
	}
	return string(body) + rest
}

func init() { //nolint:gochecknoinits // only package gateway can set them
	trial.Run = func(ctx context.Context, gateway any, permalink string, t trial.Try) (*trial.Result, error) {
		return gateway.(*Gateway).runTest(ctx, permalink, t)
	}
	trial.NewOutgoing = func(ctx context.Context, connector any, in trial.Incoming) (*trial.Outgoing, error) {
		out, err := connector.(*Connector).outgoing(ctx, in)
		switch {
		case err != nil:
			return nil, err
		case in.Masked:
			return out.masked, nil
		}
		return &out.Outgoing, nil
	}
	trial.Dropped = func(connector any, query string) []string {
		params, _ := parseQuery(query) // what is not well formed is refused
		return connector.(*Connector).drops(params)
	}
	trial.Way = func(event any) []trial.Step { return event.(*Event).way() }
	trial.Remedy = func(response *http.Response, now time.Time) string {
		return (&Event{Status: response.StatusCode, Refusal: refusedBy(response, now)}).Remedy()
	}
}
