package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/internal/trial"
)

// Users identifies the user of a request. [identity.Identifier] implements it for session tokens and headers of a proxy.
type Users interface {
	// User returns the user of a request, or the zero User if it has no user. If User returns an error, the request is refused. The error
	// is or wraps [identity.ErrUnauthenticated], [identity.ErrAmbiguous] or [identity.ErrUnavailable]. User is called concurrently.
	User(r *http.Request) (host.User, error)
}

// Config configures a gateway.
type Config struct {
	// Logger receives the log. If it is nil, nothing is logged.
	Logger *slog.Logger
	// Clock returns the time. If it is nil, time.Now is used.
	Clock func() time.Time
	// Base sends the requests to APIs. If it is nil, the gateway uses the transport of each connector's host.
	Base http.RoundTripper
	// If not nil, Observe is called once for each request to [Gateway.Handler] or [Gateway.Test], after its answer has been
	// written. It is called concurrently.
	Observe func(Event)
	// If not nil, Trace is called for each request to [Gateway.Handler] when it has come, and not for tests of operators. The event has
	// ID, Method, Traceparent and Began. The context that Trace returns is derived from ctx, and takes its place in the request; a
	// [host.Tracer] finds it again in that of its spans. end, if not nil, is called before Observe, with the same event. Trace is
	// called concurrently.
	Trace func(ctx context.Context, event Event) (traceContext context.Context, end func(Event))
	// If not nil, Recordable is called before a credential is used. It returns an error if the use could not be recorded now. Then
	// the request is refused with the problem not-recorded. It is called concurrently.
	Recordable func() error
	// Connections keeps the accounts that users have connected. If it is nil, users do not see them.
	Connections Connections
	// Tenants lets the administrators of tenants act. It may be nil.
	Tenants Tenants
}

// Setup configures the connectors that a gateway serves, and who may use them. [Gateway.Use] replaces it as a whole.
type Setup struct {
	// Connectors are the connectors that callers may use. Each has a permalink of its own.
	Connectors []*Connector
	// Hosts are the names of the gateway that callers may use in the header Host. A name with a port is valid with that port
	// only. Empty means localhost and loopback addresses.
	Hosts []string
	// Origins are the origins of pages that may call the gateway from a browser, such as https://app.example.com. The
	// gateway's own origin is always allowed.
	Origins []string
	// Users identifies the user of a request. If it is nil, requests have no user.
	Users Users
	// Consent configures the paths at which users connect their accounts. [Consent.Check] finds what is wrong with it, and reads its
	// files; otherwise Use reads them, and does without those that are wrong.
	Consent Consent
	// Documents are documents in JSON that everybody may read, by their paths, such as /.well-known/jwks.json.
	Documents map[string]func(context.Context) ([]byte, error)
}

// Gateway serves connectors. It is safe for concurrent use.
type Gateway struct {
	config Config
	// buffers has each [buffer] that is not in use. A new one for each body would be most of the cost of a short answer.
	buffers sync.Pool
	// places limits how many bodies are shaped at once, and their memory.
	places *fairqueue.Queue
	// consents limits the requests to /connect and below, and callbacks those to its callbacks, which anybody can send.
	consents, callbacks *limiter

	mu      sync.RWMutex
	current *generation
}

// generation is the state between two calls of Use.
type generation struct {
	Setup
	// connectors has those of the Setup by permalink, and hosts its Hosts in lower case.
	connectors map[string]*running
	hosts      map[string]bool
	inFlight   sync.WaitGroup
}

type running struct {
	*Connector
	limits *limiter
	// droppedInLog reports whether the log has the parameters of a caller that were dropped.
	droppedInLog atomic.Bool
}

// New returns a gateway without connectors. [Gateway.Use] sets them.
func New(c Config) *Gateway {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	g := &Gateway{
		config: c, current: &generation{}, places: newPlaces(), buffers: sync.Pool{New: func() any { return new(buffer) }},
		consents:  newLimiter(Limits{Concurrent: maxConsents, PerUser: 1 / consentEvery.Seconds()}, c.Clock),
		callbacks: newLimiter(Limits{Concurrent: maxConsents}, c.Clock),
	}
	g.consents.burst = consentsAtOnce
	return g
}

// Use replaces the setup of the gateway by s. Requests in flight finish with the setup that they began with. The function
// wait returns when they have been answered and Observe has been called for them. After that, the hosts of the earlier
// connectors may be closed. Calling wait is optional.
//
// The counts of a connector's limits, requests in flight included, are kept if the earlier setup has a connector with the
// same permalink, PerUser, Total and Concurrent. Otherwise they start at zero.
func (g *Gateway) Use(s Setup) (wait func()) {
	s.Origins = slices.Clone(s.Origins)
	if s.Consent.look == nil {
		s.Consent.Check(true)
	}
	next := &generation{Setup: s, connectors: make(map[string]*running, len(s.Connectors)), hosts: map[string]bool{}}
	for _, name := range s.Hosts {
		next.hosts[strings.ToLower(name)] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	previous := g.current
	for _, c := range s.Connectors {
		r := &running{Connector: c}
		if old := previous.connectors[c.definition.Permalink]; old != nil && old.limits.counts(c.definition.Limits) {
			r.limits = old.limits
		} else {
			r.limits = newLimiter(c.definition.Limits, g.config.Clock)
		}
		next.connectors[c.definition.Permalink] = r
	}
	g.current = next
	return previous.inFlight.Wait
}

// enter returns the current generation for one request. The caller must call Done of its inFlight when the request has ended.
func (g *Gateway) enter() *generation {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.current.inFlight.Add(1)
	return g.current
}

// Handler returns the handler for callers. It serves the paths /connectors/{permalink} and below, and /connect and below, where
// users connect their accounts, and Documents of the Setup.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := g.newCall(r, w.Header())
		c.event.Traceparent = r.Header.Get("Traceparent")
		generation := g.enter()
		defer generation.inFlight.Done()
		if trace := g.config.Trace; trace != nil {
			started, ctx := c.event, r.Context()
			started.Method = c.methodOf(r.Method)
			ctx, c.traced = trace(ctx, started)
			r = r.WithContext(ctx)
		}
		defer c.observe() // deferred, because an answer that breaks off ends in a panic
		if err := g.serve(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
		}
	})
}

// serve checks a request and sends it to the API. If it returns an error, it has written nothing.
func (g *Gateway) serve(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	if err := generation.refuses(r); err != nil {
		return err
	}
	c.callerURL = r.URL
	if path, ok := consentPath(r.URL.EscapedPath()); ok {
		return g.serveConsent(c, generation, w, r, path)
	}
	if document := generation.Documents[r.URL.EscapedPath()]; document != nil {
		v := &visit{call: c, generation: generation, w: w, r: r}
		return v.serve(r.URL.Path, "GET, HEAD", func() error { return v.document(document) })
	}
	if preflight, err := c.crossOrigin(generation, w, r); preflight || err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/connectors/")
	permalink, path, _ := strings.Cut(rest, "/")
	connector := generation.connectors[permalink]
	if !ok || connector == nil {
		return errNoConnector
	}
	c.connector = connector.Connector
	ctx, leave, err := c.admit(generation, connector, r)
	if err != nil {
		return err
	}
	defer leave()
	if err := g.recordable(); err != nil {
		return err
	}
	if limit := connector.definition.Limits.RequestBytes; r.ContentLength > limit { // before any of it is read, and before net/http sends 100 Continue
		return &http.MaxBytesError{Limit: limit}
	}
	return c.forward(ctx, connector, w, r, trial.Incoming{Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: r.Header, Masked: c.tested})
}

// document answers with a document for everybody.
func (v *visit) document(read func(context.Context) ([]byte, error)) error {
	body, err := read(v.r.Context())
	if err != nil {
		return &httpProblem{status: http.StatusServiceUnavailable, kind: "document-unavailable", detail: "this document cannot be read now", cause: err}
	}
	return v.file("application/json", noPage[0], string(body))
}

// admit identifies the user of a request, and waits for nothing: a request over the limits of the connector gets an error. The
// context has the user. leave ends the request for the limits. The request of an operator's test has its user already, and no limits.
func (c *call) admit(generation *generation, connector *running, r *http.Request) (ctx context.Context, leave func(), err error) {
	ctx = r.Context()
	if c.tested {
		return ctx, func() {}, nil
	}
	who := ""
	if generation.Users != nil {
		user, err := generation.Users.User(r)
		if err != nil {
			return nil, nil, err
		}
		c.event.Tenant, c.event.User = user.TenantID, user.ID
		who = allowanceOf(user)
		ctx = host.WithUser(ctx, user)
	}
	leave, err = connector.limits.enter(who)
	return ctx, leave, err
}

// forward sends a request to the API, and writes the answer. It uses the method and the body of r. If it returns an error, it has
// written nothing.
func (c *call) forward(ctx context.Context, connector *running, w http.ResponseWriter, r *http.Request, in trial.Incoming) (err error) {
	g, permalink := c.gateway, connector.definition.Permalink
	c.exchanges.id = c.event.ID
	ctx, c.cancel = context.WithCancelCause(context.WithValue(ctx, exchangesKey{}, &c.exchanges))
	defer c.cancel(nil)
	if c.out, err = connector.outgoing(ctx, in); errors.As(err, new(*trial.Refusal)) {
		return err
	}
	if c.event.Use = UseRequest; c.tested {
		c.event.Use = UseTest
	}
	if err != nil { // a template failed: it names a value that is missing, or a secret that cannot be read
		return unauthenticated(host.StageTemplate, err)
	}
	c.event.Pattern, c.event.Host = c.out.pattern, c.out.URL.Host
	if len(c.out.dropped) > 0 && !c.tested && connector.droppedInLog.CompareAndSwap(false, true) {
		g.config.Logger.LogAttrs(ctx, slog.LevelInfo, "query parameters of a caller are not passed on: those that the API is to have need an entry in query with overridable",
			slog.String("request_id", c.event.ID), slog.String("connector", permalink), slog.Any("names", c.out.dropped))
	}
	if c.out.credentials != nil {
		ctx = host.WithCredentials(ctx, c.out.credentials...)
	}
	r = r.WithContext(ctx)
	if r.ContentLength != 0 {
		body := &incomingBody{ReadCloser: http.MaxBytesReader(w, r.Body, connector.definition.Limits.RequestBytes)}
		defer body.Close()
		r.Body = body
	}
	if err := c.shapeRequest(ctx, r); err != nil {
		return err
	}
	c.event.Ready = g.config.Clock()
	c.sentBody = r.GetBody
	if err := c.send(w, r); err != nil {
		c.fail(ctx, w, err) // here, because the cause of ctx may say why
	}
	return nil
}

func (g *Gateway) recordable() error {
	if g.config.Recordable == nil {
		return nil
	}
	if err := g.config.Recordable(); err != nil {
		return &httpProblem{status: http.StatusServiceUnavailable, kind: "not-recorded", detail: "requests cannot be recorded at the moment, and are not sent", retry: 5, cause: err}
	}
	return nil
}

func (c *call) write(w http.ResponseWriter, status int, body []byte) {
	c.event.Status = status
	w.Header().Set("Server-Timing", c.timing())
	if len(body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (g *generation) refuses(r *http.Request) error {
	switch {
	case !g.isHost(r.Host):
		why := ", which is none of gateway.hosts"
		if len(g.hosts) == 0 {
			why = ": without gateway.hosts, only localhost and loopback addresses are known"
		}
		return &httpProblem{
			status: http.StatusMisdirectedRequest, kind: "unknown-host", detail: "this gateway is not known under that name",
			cause: fmt.Errorf("the Host is %.100q%s", r.Host, why),
		}
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: r.Method + " is not taken here"}
	case r.Header.Get("Upgrade") != "" || r.ProtoMajor == 1 && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade"):
		return &httpProblem{status: http.StatusBadRequest, kind: "upgrade-refused", detail: "connections are not upgraded here"}
	}
	return nil
}

// allowanceOf returns a text that identifies a user for limits. It is the ID if the user has one, because users may be able
// to change their email and name. It is "" for the zero User.
func allowanceOf(u host.User) string {
	switch {
	case u.ID != "":
		return u.TenantID + "\x00id\x00" + u.ID
	case u != (host.User{}):
		return u.TenantID + "\x00email\x00" + u.Email + "\x00" + u.Username
	}
	return ""
}

// isHost reports whether name, the header Host of a request, is one of the gateway's names.
func (g *generation) isHost(name string) bool {
	if len(g.hosts) == 0 {
		return urlcheck.Loopback(name)
	}
	name = strings.ToLower(name)
	return g.hosts[name] || g.hosts[strings.TrimSuffix(name, ":"+(&url.URL{Host: name}).Port())]
}

// requestID returns the trace ID of the caller's traceparent (W3C Trace Context), or a random ID if there is no valid one.
func requestID(r *http.Request) string {
	if traceparent := r.Header.Get("Traceparent"); strings.Count(traceparent, "-") == 3 {
		trace := strings.Split(traceparent, "-")[1]
		if _, err := hex.DecodeString(trace); err == nil && len(trace) == 32 && strings.Trim(trace, "0") != "" {
			return strings.ToLower(trace)
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never returns an error
	return hex.EncodeToString(id[:])
}
