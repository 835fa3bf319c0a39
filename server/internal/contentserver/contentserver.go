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

	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/internal/callers"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// Config configures [Run].
type Config struct {
	// Content configures the interface. Its Callers and Observe are set by Run.
	Content httpapi.Config
	// Callers authenticates callers. If it is nil, everybody may call, and Server.Listen must be a loopback address.
	Callers *callers.Callers
	// Server has the addresses, the Logger and Started. Run sets the rest.
	Server httpserver.Config
	// Login configures the login of operators by a token. Its zero value means that they need none, and then Server.Admin has to
	// be a loopback address. Run sets its Logger.
	Login login.Config
	// TLS is the certificate for callers, and for operators if Server.Admin is no loopback address. The zero value means plain HTTP.
	TLS httpserver.Files
	// AccessLog logs each request, without its path and query.
	AccessLog bool
}

// Run serves until ctx ends, and then waits for the requests in flight. It returns an error if the configuration is
// invalid, a server cannot start or fails, or requests had to be cut off.
func Run(ctx context.Context, c Config) error {
	m := metrics.New()
	c.Content.Observe = c.recorder(m)
	if c.Callers != nil {
		c.Content.Callers = c.Callers
	}
	server := c.Server
	var err error
	if server.Handler, err = httpapi.New(c.Content); err != nil {
		return err
	}
	if c.Login.TokenFile != "" {
		c.Login.Logger = server.Logger
		l, err := login.New(c.Login)
		if err != nil {
			return fmt.Errorf("the login of operators: %w", err)
		}
		server.Login = l.Guard
	}
	if server.TLS, err = c.secure(m); err != nil {
		return err
	}
	server.Local, server.Ready, server.Operate = c.Callers == nil, c.ready, map[string]http.Handler{"GET /metrics": m.Handler()}
	return httpserver.Run(ctx, server)
}

// secure returns the TLS configuration, or nil without a certificate. m shows when the certificate ends.
func (c Config) secure(m *metrics.Registry) (*tls.Config, error) {
	if c.TLS == (httpserver.Files{}) {
		return nil, nil
	}
	pair, err := httpserver.ReadPair(c.TLS)
	if err != nil {
		return nil, err
	}
	certificate := &httpserver.Certificate{Logger: c.Server.Logger}
	certificate.Use(pair)
	m.Certificate(certificate.NotAfter)
	return certificate.Config(), nil
}

// ready returns an error if requests cannot be served, because the store fails or callers cannot be authenticated.
func (c Config) ready() error {
	const readyTime = 5 * time.Second // limits the check for /readyz
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if _, err := c.Content.Store.Articles(ctx, 0, 1); err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	if c.Callers != nil {
		return c.Callers.Ready(ctx)
	}
	return nil
}

// recorder returns a function that counts and logs requests. The values of labels are from fixed lists.
func (c Config) recorder(m *metrics.Registry) func(httpapi.Event) {
	requests := m.Counter("content_requests_total", "Requests for content that were answered.", "operation", "status", "problem")
	total := m.Seconds("content_request_seconds", "Time until an answer had been written.", "operation")
	return func(e httpapi.Event) {
		requests.WithLabelValues(e.Operation, strconv.Itoa(e.Status), e.Problem).Inc()
		total.WithLabelValues(e.Operation).Observe(e.Total.Seconds())
		if c.AccessLog {
			c.Server.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", e.ID), slog.String("operation", e.Operation), slog.String("caller", e.Caller),
				slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Float64("total_ms", float64(e.Total.Microseconds())/1000))
		}
	}
}
