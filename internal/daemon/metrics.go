package daemon

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
)

// metrics are what /metrics shows. Labels are of the configuration, or of a list that this program has: none of them grows
// with what callers send.
type metrics struct {
	registry *prometheus.Registry

	requests  *prometheus.CounterVec
	upstream  *prometheus.HistogramVec
	total     *prometheus.HistogramVec
	calls     *prometheus.CounterVec
	exchanges *prometheus.CounterVec
	token     *prometheus.CounterVec
	sandbox   *prometheus.CounterVec
	fuel      *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "keywright", Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "keywright", Name: name, Help: help, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"connector"})
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  counter("requests_total", "Requests of callers that were answered.", "connector", "status", "problem"),
		upstream:  seconds("upstream_seconds", "Time until an API's answer began."),
		total:     seconds("request_seconds", "Time until an answer had been written."),
		calls:     counter("authentications_total", "Attempts to authenticate a request, by where the result came from: the plugin, the token cache, or an earlier call.", "connector", "from"),
		exchanges: counter("token_exchanges_total", "Token requests that were sent.", "connector"),
		token:     counter("token_seconds_total", "Time that token endpoints took.", "connector"),
		sandbox:   counter("sandbox_seconds_total", "Time in the sandbox, waits left out.", "connector"),
		fuel:      counter("fuel_total", "Units of fuel that plugins used.", "connector"),
		failures:  counter("authentication_failures_total", "Requests that could not be authenticated.", "connector", "stage"),
	}
	m.registry.MustRegister(m.requests, m.upstream, m.total, m.calls, m.exchanges, m.token, m.sandbox, m.fuel, m.failures,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// request is gateway.Config.Observe.
func (m *metrics) request(e gateway.Event) {
	m.requests.WithLabelValues(e.Connector, strconv.Itoa(e.Status), e.Problem).Inc()
	if e.Connector == "" {
		return
	}
	m.total.WithLabelValues(e.Connector).Observe(e.Total.Seconds())
	if e.Upstream > 0 {
		m.upstream.WithLabelValues(e.Connector).Observe(e.Upstream.Seconds())
	}
	if e.Stage != "" {
		m.failures.WithLabelValues(e.Connector, e.Stage).Inc()
	}
}

// forget leaves out what there is about a connector that is no longer there.
func (m *metrics) forget(connector string) {
	of := prometheus.Labels{"connector": connector}
	for _, c := range []*prometheus.CounterVec{m.requests, m.calls, m.exchanges, m.token, m.sandbox, m.fuel, m.failures} {
		c.DeletePartialMatch(of)
	}
	m.total.DeletePartialMatch(of)
	m.upstream.DeletePartialMatch(of)
}

// call is told of an attempt to authenticate a request.
func (m *metrics) call(c host.Call) {
	from := "plugin"
	switch {
	case c.Cached:
		from = "cache"
	case c.Reused:
		from = "reuse"
	}
	m.calls.WithLabelValues(c.Connector, from).Inc()
	m.exchanges.WithLabelValues(c.Connector).Add(float64(c.Exchanges))
	m.token.WithLabelValues(c.Connector).Add(c.Token.Seconds())
	m.sandbox.WithLabelValues(c.Connector).Add(c.Sandbox.Seconds())
	m.fuel.WithLabelValues(c.Connector).Add(float64(c.Fuel))
}
