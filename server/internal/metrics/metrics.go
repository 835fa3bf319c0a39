// Package metrics makes what a server shows under /metrics, for Prometheus.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry has the metrics of a program, those of its process and of Go's runtime included. Labels have to be of a
// configuration or of a list in the program: none may grow with what callers send.
type Registry struct{ registry *prometheus.Registry }

// New makes a Registry.
func New() *Registry {
	r := &Registry{prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Counter makes a counter. Its name begins keywright_.
func (r *Registry) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "keywright", Name: name, Help: help}, labels)
	r.registry.MustRegister(c)
	return c
}

// Seconds makes a histogram of times from a millisecond to half a minute. Its name begins keywright_.
func (r *Registry) Seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "keywright", Name: name, Help: help, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, labels)
	r.registry.MustRegister(h)
	return h
}

// Gauge makes a gauge that is asked for its value whenever the page is made. Its name begins keywright_.
func (r *Registry) Gauge(name, help string, value func() float64) {
	r.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "keywright", Name: name, Help: help}, value))
}

// Certificate shows until when the certificate of a listener is valid.
func (r *Registry) Certificate(notAfter func() time.Time) {
	r.Gauge("certificate_expiration_timestamp_seconds", "When the certificate that callers see expires, in Unix time.", func() float64 { return float64(notAfter().Unix()) })
}

// Handler is the page.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{})
}
