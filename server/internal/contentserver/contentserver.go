// Package contentserver runs the content interface: the store behind HTTP, with what operators need.
package contentserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/internal/callers"
	"github.com/keywright/keywright/server/internal/httpserver"
	"github.com/keywright/keywright/server/internal/metrics"
)

const readyTime = 5 * time.Second // for /readyz

// Config says what to run.
type Config struct {
	Store  content.Store
	Embeds httpapi.Embedder
	Base   string // see [httpapi.Config]
	// Callers have to prove themselves. Nil: they need not, and Listen has to be an address of the loopback.
	Callers *callers.Callers
	Listen  string           // address for callers
	Admin   string           // address for operators
	TLS     httpserver.Files // for callers; the zero value is plain HTTP
	Logger  *slog.Logger
	// AccessLog has each request in the log, without its path and query.
	AccessLog bool
	// Started is told where the servers listen, once they do: URLs, that of callers with Base.
	Started func(callers, operators string)
}

var errOpen = errors.New("callers from other machines have to prove themselves: give an API key or the keys of tokens, or listen on 127.0.0.1")

// Run serves until the context ends, and finishes what is in flight.
func Run(ctx context.Context, c Config) error {
	if c.Callers == nil && !isLoopback(c.Listen) {
		return fmt.Errorf("listening on %s: %w", c.Listen, errOpen)
	}
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
	scheme, secure := "http://", (*tls.Config)(nil)
	if c.TLS != (httpserver.Files{}) {
		pair, err := httpserver.ReadPair(c.TLS)
		if err != nil {
			return err
		}
		certificate := &httpserver.Certificate{Logger: c.Logger}
		certificate.Use(pair)
		r.metrics.Certificate(certificate.NotAfter)
		scheme, secure = "https://", certificate.Config()
	}
	return httpserver.Run(ctx, httpserver.Config{
		Listen: c.Listen, Admin: c.Admin, Handler: handler, Local: c.Callers == nil, TLS: secure, Logger: c.Logger, Ready: c.ready,
		Operate: map[string]http.Handler{"GET /metrics": r.metrics.Handler()},
		Started: func(callers, operators net.Addr) {
			if c.Started != nil {
				c.Started(scheme+callers.String()+c.Base, "http://"+operators.String())
			}
		},
	})
}

// ready reports whether requests can be served: the store answers, and callers can be told.
func (c Config) ready() error {
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

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// recorder is told of each request. Its labels are of lists that the program has.
type recorder struct {
	log      *slog.Logger // nil without an access log
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

// request is httpapi.Config.Observe.
func (r *recorder) request(e httpapi.Event) {
	r.requests.WithLabelValues(e.Operation, strconv.Itoa(e.Status), e.Problem).Inc()
	r.total.WithLabelValues(e.Operation).Observe(e.Total.Seconds())
	if r.log != nil {
		r.log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("operation", e.Operation), slog.String("caller", e.Caller),
			slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Duration("total", e.Total))
	}
}
