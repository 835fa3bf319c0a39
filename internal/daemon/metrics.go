package daemon

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/metrics"
)

// gatewayMetrics are what /metrics shows. Labels are of the configuration, or of a list that this program has: none of them grows
// with what callers send.
type gatewayMetrics struct {
	*metrics.Registry

	requests  *prometheus.CounterVec
	upstream  *prometheus.HistogramVec
	total     *prometheus.HistogramVec
	calls     *prometheus.CounterVec
	exchanges *prometheus.CounterVec
	token     *prometheus.CounterVec
	sandbox   *prometheus.CounterVec
	fuel      *prometheus.CounterVec
	failures  *prometheus.CounterVec
	reloads   *prometheus.CounterVec
}

// Results of a reload.
const (
	resultUsed    = "used"
	resultRefused = "refused"
)

// newMetrics makes the metrics of a daemon, which says of itself what is in use.
func newMetrics(d *daemon) *gatewayMetrics {
	r := metrics.New()
	r.Gauge("configuration_last_reload_successful", "1 when the file on disk is what is in use, 0 when it was refused.", func() float64 {
		if d.since().IsZero() {
			return 1
		}
		return 0
	})
	r.Gauge("configuration_last_reload_success_timestamp_seconds", "When what is in use was read, in Unix time.", func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(d.used.Unix())
	})
	m := &gatewayMetrics{
		Registry:  r,
		requests:  r.Counter("requests_total", "Requests of callers that were answered.", "connector", "status", "problem"),
		upstream:  r.Seconds("upstream_seconds", "Time until an API's answer began.", "connector"),
		total:     r.Seconds("request_seconds", "Time until an answer had been written.", "connector"),
		calls:     r.Counter("authentications_total", "Attempts to authenticate a request, by where the result came from: the plugin, the token cache, or an earlier call.", "connector", "from"),
		exchanges: r.Counter("token_exchanges_total", "Token requests that were sent.", "connector"),
		token:     r.Counter("token_seconds_total", "Time that token endpoints took.", "connector"),
		sandbox:   r.Counter("sandbox_seconds_total", "Time in the sandbox, waits left out.", "connector"),
		fuel:      r.Counter("fuel_total", "Units of fuel that plugins used.", "connector"),
		failures:  r.Counter("authentication_failures_total", "Requests that could not be authenticated.", "connector", "stage"),
		reloads:   r.Counter("configuration_reloads_total", "Times that the file was read again, by whether it came into use.", "result"),
	}
	for _, result := range []string{resultUsed, resultRefused} {
		m.reloads.WithLabelValues(result) // shown from the start, so that the first one is an increase
	}
	return m
}

// request is gateway.Config.Observe.
func (m *gatewayMetrics) request(e gateway.Event) {
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
func (m *gatewayMetrics) forget(connector string) {
	of := prometheus.Labels{"connector": connector}
	for _, c := range []*prometheus.CounterVec{m.requests, m.calls, m.exchanges, m.token, m.sandbox, m.fuel, m.failures} {
		c.DeletePartialMatch(of)
	}
	m.total.DeletePartialMatch(of)
	m.upstream.DeletePartialMatch(of)
}

// call is told of an attempt to authenticate a request.
func (m *gatewayMetrics) call(c host.Call) {
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
