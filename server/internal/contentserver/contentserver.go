// Package contentserver runs the content interface as an HTTP server, with metrics, health checks and an access log.
package contentserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/internal/callers"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// Config configures [Run].
type Config struct {
	// Store, Embeds and Base are those of [httpapi.Config].
	Store  content.Store
	Embeds httpapi.Embedder
	Base   string
	// Callers authenticates callers. If it is nil, everybody may call, and Listen must be a loopback address.
	Callers *callers.Callers
	// Listen is the address for callers, Admin the address for operators, host:port each.
	Listen string
	Admin  string
	// Login configures the login of operators by a token. Its zero value means that they need none, and then Admin has to be a
	// loopback address. Run sets its Logger.
	Login login.Config
	// TLS is the certificate for callers, and for operators if Admin is no loopback address. The zero value means plain HTTP.
	TLS    httpserver.Files
	Logger *slog.Logger
	// AccessLog logs each request, without its path and query.
	AccessLog bool
	// Started is called with the URLs of the servers once they listen. The URL for callers includes Base.
	Started func(callers, operators string)
}

// Run serves until ctx ends, and then waits for the requests in flight. It returns an error if the configuration is
// invalid, a server cannot start or fails, or requests had to be cut off.
func Run(ctx context.Context, c Config) error {
	config := httpapi.Config{Store: c.Store, Embeds: c.Embeds, Base: c.Base, Logger: c.Logger}
	if c.Callers != nil {
		config.Callers = c.Callers
	}
	r := newRecorder(c)
	config.Observe = r.request
	handler, err := httpapi.New(config)
	if err != nil {
		return err
	}
	var guard func(http.Handler) http.Handler
	if c.Login.TokenFile != "" {
		c.Login.Logger = c.Logger
		l, err := login.New(c.Login)
		if err != nil {
			return fmt.Errorf("the login of operators: %w", err)
		}
		guard = l.Guard
	}
	secure, err := c.secure(r)
	if err != nil {
		return err
	}
	return httpserver.Run(ctx, httpserver.Config{
		Listen: c.Listen, Admin: c.Admin, Handler: handler, Local: c.Callers == nil, TLS: secure, Logger: c.Logger, Ready: c.ready, Login: guard,
		Operate: map[string]http.Handler{"GET /metrics": r.metrics.Handler()},
		Started: func(callers, operators string) { c.Started(callers+c.Base, operators) },
	})
}

// secure returns the TLS configuration, or nil without a certificate. r shows when the certificate ends.
func (c Config) secure(r *recorder) (*tls.Config, error) {
	if c.TLS == (httpserver.Files{}) {
		return nil, nil
	}
	pair, err := httpserver.ReadPair(c.TLS)
	if err != nil {
		return nil, err
	}
	certificate := &httpserver.Certificate{Logger: c.Logger}
	certificate.Use(pair)
	r.metrics.Certificate(certificate.NotAfter)
	return certificate.Config(), nil
}

// ready returns an error if requests cannot be served, because the store fails or callers cannot be authenticated.
func (c Config) ready() error {
	const readyTime = 5 * time.Second // limits the check for /readyz
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if _, err := c.Store.Articles(ctx, 0, 1); err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	if c.Callers != nil {
		return c.Callers.Ready(ctx)
	}
	return nil
}

// recorder counts and logs requests. The values of its labels are from fixed lists.
type recorder struct {
	// log is nil if there is no access log.
	log      *slog.Logger
	metrics  *metrics.Registry
	requests *prometheus.CounterVec
	total    *prometheus.HistogramVec
}

func newRecorder(c Config) *recorder {
	m := metrics.New()
	r := &recorder{
		metrics:  m,
		requests: m.Counter("content_requests_total", "Requests for content that were answered.", "operation", "status", "problem"),
		total:    m.Seconds("content_request_seconds", "Time until an answer had been written.", "operation"),
	}
	if c.AccessLog {
		r.log = c.Logger
	}
	return r
}

// request records a request. It implements httpapi.Config.Observe.
func (r *recorder) request(e httpapi.Event) {
	r.requests.WithLabelValues(e.Operation, strconv.Itoa(e.Status), e.Problem).Inc()
	r.total.WithLabelValues(e.Operation).Observe(e.Total.Seconds())
	if r.log != nil {
		r.log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", e.ID), slog.String("operation", e.Operation), slog.String("caller", e.Caller),
			slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Float64("total_ms", float64(e.Total.Microseconds())/1000))
	}
}
