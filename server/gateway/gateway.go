package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/places"
)

// Users identifies the user of a request. An [identity.Identifier] does, by a session token or the headers of a proxy.
type Users interface {
	// User returns who the user is: nobody when it is the zero User. Its error is, or wraps, [identity.ErrUnauthenticated],
	// [identity.ErrAmbiguous] or [identity.ErrUnavailable], and the request is refused.
	User(r *http.Request) (host.User, error)
}

// Config configures a gateway.
type Config struct {
	// Logger takes the log. Nil: logs are dropped.
	Logger *slog.Logger
	// Clock returns the time. Nil is time.Now.
	Clock func() time.Time
	// Base sends the requests to APIs. Nil is the transport of each connector's host.
	Base http.RoundTripper
	// Observe is called with each request once it has been answered. Nil: nobody is told.
	Observe func(Event)
}

// Event is a request that has been answered.
type Event struct {
	// ID is that of X-Request-Id: the trace of the caller's traceparent, or random. It has 32 hexadecimal digits.
	ID string
	// Connector is the permalink. It is "" when the request was for none.
	Connector string
	// Status is that of the answer. It is 499 when the caller did not wait for it.
	Status int
	// Problem is the last part of the problem's type, also of one that cut an answer off. It is "" when there was none.
	Problem string
	// Stage is where authenticating it failed. It is "" otherwise.
	Stage string
	// Total is how long it took until the answer had been written.
	Total time.Duration
	// Upstream is how long it took from asking the API until its answer began. It is 0 when the API was not asked.
	Upstream time.Duration
	// Exchanges is how many token requests were sent for it. It is 0 unless the hosts have [Observe].
	Exchanges int

	// Traceparent is where in a trace the request is, as its caller says: W3C traceparent, unchecked.
	Traceparent string
	// Began is when the request came.
	Began time.Time
	// Ready is when it was to be authenticated. It is zero when it was refused before.
	Ready time.Time
	// Sent is when the API was asked first. It is zero when it was not.
	Sent time.Time
}

// Observe is for Observe of the [host.Config] of those hosts whose connectors a gateway runs. Without it, the [Event] and the
// Server-Timing of a request know nothing of its token exchanges.
func Observe(ctx context.Context, attempt host.Attempt) {
	if e, ok := ctx.Value(exchangesKey{}).(*exchanges); ok {
		e.count.Add(int64(attempt.Exchanges))
		e.took.Add(int64(attempt.Token))
	}
}

// Setup holds the connectors that a gateway serves until another Setup takes its place.
type Setup struct {
	// Connectors are those that callers may use, each with a permalink of its own.
	Connectors []*Connector
	// Hosts are the names that callers may use; one with a port, with that port only. Empty: those of the loopback.
	Hosts []string
	// Origins are those of the pages that may call from a browser, beside the gateway's own: https://app.example.com.
	Origins []string
	// Users identifies who is calling. Nil: requests have no user.
	Users Users
}

// Gateway runs connectors. It is safe for concurrent use.
type Gateway struct {
	config  Config
	buffers buffers
	places  *places.Places // for bodies that are shaped

	mu      sync.RWMutex
	current *generation
}

// generation holds the setup in use from one Use to the next.
type generation struct {
	connectors map[string]*running
	hosts      map[string]bool
	origins    map[string]bool
	users      Users
	inFlight   sync.WaitGroup
}

// running is a connector in use.
type running struct {
	*Connector
	limits *limiter
}

// New makes a gateway that serves nothing yet: see Use.
func New(c Config) *Gateway {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Gateway{config: c, current: &generation{}, places: newPlaces()}
}

// Use has the gateway serve this from now on, and nothing else. Requests in flight finish on what they began with: wait
// returns when they have been answered and Observe has been called for them. Then the hosts of those connectors may be
// closed.
//
// A connector whose permalink was there before, with the same PerUser, Total and Concurrent, goes on with what has been
// counted, requests in flight included. One of whose limits any of these has changed counts from nothing.
func (g *Gateway) Use(s Setup) (wait func()) {
	next := &generation{
		connectors: make(map[string]*running, len(s.Connectors)), hosts: map[string]bool{}, origins: map[string]bool{}, users: s.Users,
	}
	for _, name := range s.Hosts {
		next.hosts[strings.ToLower(name)] = true
	}
	for _, origin := range s.Origins {
		next.origins[origin] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.current
	for _, c := range s.Connectors {
		r := &running{Connector: c}
		if known := before.connectors[c.Permalink]; known != nil && known.limits.counts(c.Limits) {
			r.limits = known.limits
		} else {
			r.limits = newLimiter(c.Limits, g.config.Clock)
		}
		next.connectors[c.Permalink] = r
	}
	g.current = next
	return before.inFlight.Wait
}

// enter returns what is in use, for one request. It is matched by Done of inFlight.
func (g *Gateway) enter() *generation {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.current.inFlight.Add(1)
	return g.current
}

// Handler serves callers: /connectors/{permalink}/….
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{gateway: g, id: requestID(r), began: g.config.Clock()}
		c.event.Traceparent = r.Header.Get("Traceparent")
		c.always(w.Header())
		generation := g.enter()
		defer generation.inFlight.Done()
		defer c.observe() // also when an answer breaks off, which ends in a panic
		if err := g.serve(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
		}
	})
}

// serve checks a request step by step. An error means that nothing has been written.
func (g *Gateway) serve(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	if err := generation.refuses(r); err != nil {
		return err
	}
	if preflight, err := generation.crossOrigin(w, r); err != nil {
		return err
	} else if preflight {
		c.event.Status = http.StatusNoContent
		w.Header().Set("Server-Timing", c.timing())
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/connectors/")
	permalink, path, _ := strings.Cut(rest, "/")
	connector := generation.connectors[permalink]
	if !ok || connector == nil {
		return &httpProblem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector"}
	}
	c.connector, c.asked = connector.Connector, r.URL
	ctx, who := r.Context(), ""
	if generation.users != nil {
		user, err := generation.users.User(r)
		if err != nil {
			return err
		}
		who = allowanceOf(user)
		ctx = host.WithUser(ctx, user)
	}
	release, err := connector.limits.enter(who)
	if err != nil {
		return err
	}
	defer release()
	if most := connector.Limits.RequestBytes; r.ContentLength > most { // before any of it is read, or asked for by 100 Continue
		return &http.MaxBytesError{Limit: most}
	}
	ctx = c.context(ctx)
	defer c.cancel(nil)
	if c.out, err = connector.Outgoing(ctx, Incoming{Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: r.Header}); err != nil {
		return unrendered(err)
	}
	if c.out.credentials != nil {
		ctx = host.WithCredentials(ctx, c.out.credentials...)
	}
	r = r.WithContext(ctx)
	if r.ContentLength != 0 {
		body := &incomingBody{ReadCloser: http.MaxBytesReader(w, r.Body, connector.Limits.RequestBytes)}
		defer body.Close()
		r.Body = body
	}
	if err := c.shapeRequest(ctx, r); err != nil {
		return err
	}
	c.event.Ready = g.config.Clock()
	if err := c.send(w, r); err != nil {
		c.fail(ctx, w, err)
	}
	return nil
}

// refuses returns why a request is not taken, whatever connector it is for.
func (g *generation) refuses(r *http.Request) error {
	switch {
	case !g.isHost(r.Host):
		return &httpProblem{status: http.StatusMisdirectedRequest, kind: "unknown-host", detail: "this gateway is not known under that name", cause: g.notHost(r.Host)}
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: r.Method + " is not taken here"}
	case r.Header.Get("Upgrade") != "" || r.ProtoMajor == 1 && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade"):
		return &httpProblem{status: http.StatusBadRequest, kind: "upgrade-refused", detail: "connections are not upgraded here"}
	}
	return nil
}

// allowanceOf returns a text that is different for each user, for limits: one that users cannot change themselves, if
// there is one.
func allowanceOf(u host.User) string {
	switch {
	case u.ID != "":
		return u.TenantID + "\x00id\x00" + u.ID
	case u != (host.User{}):
		return u.TenantID + "\x00email\x00" + u.Email + "\x00" + u.Username
	}
	return ""
}

func (g *generation) isHost(name string) bool {
	bare := withoutPort(name)
	if len(g.hosts) > 0 {
		return g.hosts[strings.ToLower(name)] || g.hosts[strings.ToLower(bare)]
	}
	if bare == "localhost" {
		return true
	}
	address := net.ParseIP(strings.Trim(bare, "[]"))
	return address != nil && address.IsLoopback()
}

// withoutPort leaves the brackets of an IPv6 address where they are.
func withoutPort(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		return host[:colon]
	}
	return host
}

// notHost is for the log.
func (g *generation) notHost(name string) error {
	if len(g.hosts) == 0 {
		return fmt.Errorf("the Host is %.100q: without gateway.hosts, only localhost and loopback addresses are known", name)
	}
	return fmt.Errorf("the Host is %.100q, which is none of gateway.hosts", name)
}

// requestID is the trace of a W3C traceparent when the caller has one, and else random.
func requestID(r *http.Request) string {
	if given := r.Header.Get("Traceparent"); strings.Count(given, "-") == 3 {
		trace := strings.Split(given, "-")[1]
		if _, err := hex.DecodeString(trace); err == nil && len(trace) == 32 && strings.Trim(trace, "0") != "" {
			return strings.ToLower(trace)
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // which never fails
	return hex.EncodeToString(id[:])
}
