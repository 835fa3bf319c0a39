package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
)

// Users tells who the user of a request is. Errors: [ErrUnauthenticated], [ErrUnavailable].
type Users interface {
	User(r *http.Request) (host.User, error)
}

// Errors of [Users].
var (
	// ErrUnauthenticated says that a request has no session, or one that does not count.
	ErrUnauthenticated = errors.New("there is no valid session")
	// ErrUnavailable says that it cannot be told at the moment whether a session counts.
	ErrUnavailable = errors.New("sessions cannot be verified at the moment")
)

// Config is what a gateway is made of.
type Config struct {
	// Hosts are the names that callers may use, with the port if that is not the scheme's. Empty: those of the loopback.
	Hosts []string
	// Origins are those of the pages that may call from a browser, beside the gateway's own: https://app.example.com.
	Origins []string
	Users   Users // nil: requests have no user
	Logger  *slog.Logger
	Clock   func() time.Time  // nil is time.Now
	Base    http.RoundTripper // nil is the host's own transport
}

// Gateway runs connectors. It is safe for concurrent use.
type Gateway struct {
	config  Config
	hosts   map[string]bool
	origins map[string]bool

	mu      sync.RWMutex
	current *generation
}

// generation is the connectors that are in use from one Use to the next.
type generation struct {
	connectors map[string]*running
	inFlight   sync.WaitGroup
}

// running is a connector in use.
type running struct {
	*Connector
	proxy  *httputil.ReverseProxy
	limits *limiter
}

// New makes a gateway without connectors.
func New(c Config) *Gateway {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	g := &Gateway{config: c, hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, name := range c.Hosts {
		g.hosts[strings.ToLower(name)] = true
	}
	for _, origin := range c.Origins {
		g.origins[origin] = true
	}
	g.current = &generation{}
	return g
}

// Use has the gateway run these connectors from now on, and no others. Requests in flight finish on what they began with:
// wait returns when they have, and the hosts of those connectors may be closed.
func (g *Gateway) Use(connectors []*Connector) (wait func()) {
	next := &generation{connectors: make(map[string]*running, len(connectors))}
	for _, c := range connectors {
		r := &running{Connector: c, limits: newLimiter(c.Limits, g.config.Clock)}
		r.proxy = g.proxy(c)
		next.connectors[c.Permalink] = r
	}
	g.mu.Lock()
	before := g.current
	g.current = next
	g.mu.Unlock()
	return before.inFlight.Wait
}

// enter gives what is in use, for one request. It is matched by Done of inFlight.
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
		w.Header().Set("X-Request-Id", c.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := g.serve(c, w, r); err != nil {
			c.fail(w, r, err)
		}
	})
}

// serve checks a request step by step. An error means that nothing has been written.
func (g *Gateway) serve(c *call, w http.ResponseWriter, r *http.Request) error {
	if !g.isHost(r.Host) {
		return &problem{status: http.StatusMisdirectedRequest, kind: "unknown-host", detail: "this gateway is not known under that name"}
	}
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return &problem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: r.Method + " is not taken here"}
	case r.Header.Get("Upgrade") != "" || r.ProtoMajor == 1 && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade"):
		return &problem{status: http.StatusBadRequest, kind: "upgrade-refused", detail: "connections are not upgraded here"}
	}
	if done, err := g.crossOrigin(w, r); done || err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/connectors/")
	permalink, path, _ := strings.Cut(rest, "/")
	generation := g.enter()
	defer generation.inFlight.Done()
	connector := generation.connectors[permalink]
	if !ok || connector == nil {
		return &problem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector"}
	}
	c.connector = connector.Connector
	ctx := r.Context()
	if g.config.Users != nil {
		user, err := g.config.Users.User(r)
		if err != nil {
			return err
		}
		c.user = user.ID
		ctx = host.WithUser(ctx, user)
	}
	release, err := connector.limits.enter(c.user)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, callKey{}, c))
	defer cancel(nil)
	c.cancel = cancel
	if c.out, err = connector.Outgoing(ctx, Incoming{Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: r.Header}); err != nil {
		return err
	}
	c.out.Method = r.Method
	r.Body = http.MaxBytesReader(w, r.Body, connector.Limits.RequestBytes)
	r = r.WithContext(ctx)
	if err := c.shapeRequest(ctx, r); err != nil {
		return err
	}
	connector.proxy.ServeHTTP(w, r)
	return nil
}

func (g *Gateway) isHost(name string) bool {
	if len(g.hosts) > 0 {
		return g.hosts[strings.ToLower(name)]
	}
	bare, _, err := net.SplitHostPort(name)
	if err != nil {
		bare = name
	}
	address := net.ParseIP(strings.Trim(bare, "[]"))
	return bare == "localhost" || address != nil && address.IsLoopback()
}

// requestID is the trace of a W3C traceparent when the caller has one, and else random.
func requestID(r *http.Request) string {
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 && len(parts[1]) == 32 {
		if _, err := hex.DecodeString(parts[1]); err == nil && strings.Trim(parts[1], "0") != "" {
			return strings.ToLower(parts[1])
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // which never fails
	return hex.EncodeToString(id[:])
}
