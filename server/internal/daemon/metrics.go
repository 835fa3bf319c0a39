package daemon

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/metrics"
)

// gatewayMetrics holds the metrics of /metrics. The values of labels come from the configuration or from fixed lists, so that
// callers cannot increase their number.
type gatewayMetrics struct {
	*metrics.Registry

	requests   *prometheus.CounterVec
	upstream   *prometheus.HistogramVec
	total      *prometheus.HistogramVec
	calls      *prometheus.CounterVec
	exchanges  *prometheus.CounterVec
	token      *prometheus.CounterVec
	keys       *prometheus.CounterVec
	keyTime    *prometheus.CounterVec
	discovered *prometheus.CounterVec
	sandbox    *prometheus.CounterVec
	fuel       *prometheus.CounterVec
	failures   *prometheus.CounterVec
	ahead      *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	plugins    *pluginMetrics
	backoffs   *backoffs

	mu         sync.RWMutex
	connectors map[string]*connectorMetrics
}

// connectorMetrics holds the metrics of one connector, because to look them up by labels for each request takes longer than
// to count it.
type connectorMetrics struct {
	upstream, total prometheus.Observer
	// plugin, cache and reuse count authentications by where the result came from.
	plugin, cache, reuse                                       prometheus.Counter
	exchanges, token, keys, keyTime, discovered, sandbox, fuel prometheus.Counter

	mu       sync.RWMutex
	requests map[outcome]prometheus.Counter
}

// An outcome is the result of a request.
type outcome struct {
	status  int
	problem string
}

// Results of a reload.
const (
	resultUsed    = "used"
	resultRefused = "refused"
)

// newMetrics returns the metrics of a daemon.
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
	r.Gauges("client_certificate_expiration_timestamp_seconds", "When the client certificate that a request needed last expires, in Unix time. It may have expired.", "connector", d.clientCertificates)
	r.Gauges("session_keys_available", "1, or 0 when the keys of sessions could not be read the last time.", "issuer", d.keysAvailable)
	r.Gauges("session_keys_read_timestamp_seconds", "When the keys of sessions were read, in Unix time.", "issuer", d.keysRead)
	waiting := newBackoffs(d.clock)
	r.Gauges("backoff_seconds", "Time in which a token endpoint that refused, or an issuer that failed, is not asked.", "connector", waiting.seconds)
	m := &gatewayMetrics{
		Registry:   r,
		requests:   r.Counter("requests_total", "Requests of callers that were answered.", "connector", "status", "problem"),
		upstream:   r.Seconds("upstream_seconds", "Time until an API's answer began.", "connector"),
		total:      r.Seconds("request_seconds", "Time until an answer had been written.", "connector"),
		calls:      r.Counter("authentications_total", "Attempts to authenticate a request, by where the result came from: the plugin, the token cache, or an earlier call.", "connector", "from"),
		exchanges:  r.Counter("token_exchanges_total", "Token requests that were sent.", "connector"),
		token:      r.Counter("token_seconds_total", "Time that token endpoints took.", "connector"),
		keys:       r.Counter("key_requests_total", "Uses of keys of the store of keys.", "connector"),
		keyTime:    r.Counter("key_seconds_total", "Time that the store of keys took.", "connector"),
		discovered: r.Counter("discoveries_total", "Times that the metadata of an issuer was read.", "connector"),
		sandbox:    r.Counter("sandbox_seconds_total", "Time in the sandbox, waits left out.", "connector"),
		fuel:       r.Counter("fuel_total", "Units of fuel that plugins used.", "connector"),
		failures:   r.Counter("authentication_failures_total", "Requests that could not be authenticated.", "connector", "stage"),
		ahead:      r.Counter("refreshes_ahead_total", "Calls of a plugin that were to replace a token ahead of its end.", "connector", "result"),
		reloads:    r.Counter("configuration_reloads_total", "Times that the file was read again, by whether it came into use.", "result"),
		plugins:    newPluginMetrics(r),
		backoffs:   waiting,
		connectors: map[string]*connectorMetrics{},
	}
	for _, result := range []string{resultUsed, resultRefused} {
		m.reloads.WithLabelValues(result) // shown from the start, so that the first reload is an increase
	}
	return m
}

// of returns the metrics of a connector, and creates them if necessary.
func (m *gatewayMetrics) of(connector string) *connectorMetrics {
	m.mu.RLock()
	known := m.connectors[connector]
	m.mu.RUnlock()
	if known != nil {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known = m.connectors[connector]; known == nil {
		known = &connectorMetrics{
			upstream: m.upstream.WithLabelValues(connector), total: m.total.WithLabelValues(connector),
			plugin: m.calls.WithLabelValues(connector, "plugin"), cache: m.calls.WithLabelValues(connector, "cache"), reuse: m.calls.WithLabelValues(connector, "reuse"),
			exchanges: m.exchanges.WithLabelValues(connector), token: m.token.WithLabelValues(connector),
			keys: m.keys.WithLabelValues(connector), keyTime: m.keyTime.WithLabelValues(connector),
			discovered: m.discovered.WithLabelValues(connector), sandbox: m.sandbox.WithLabelValues(connector), fuel: m.fuel.WithLabelValues(connector),
			requests: map[outcome]prometheus.Counter{},
		}
		m.connectors[connector] = known
	}
	return known
}

// answered counts a request of the connector.
func (c *connectorMetrics) answered(connector string, how outcome, all *prometheus.CounterVec) {
	c.mu.RLock()
	counter := c.requests[how]
	c.mu.RUnlock()
	if counter == nil {
		counter = all.WithLabelValues(connector, strconv.Itoa(how.status), how.problem)
		c.mu.Lock()
		c.requests[how] = counter
		c.mu.Unlock()
	}
	counter.Inc()
}

// request counts a request. It is called by gateway.Config.Observe.
func (m *gatewayMetrics) request(e gateway.Event) {
	if e.Connector == "" {
		m.requests.WithLabelValues("", strconv.Itoa(e.Status), e.Problem).Inc()
		return
	}
	c := m.of(e.Connector)
	c.answered(e.Connector, outcome{e.Status, e.Problem}, m.requests)
	c.total.Observe(e.Total.Seconds())
	if e.Upstream > 0 {
		c.upstream.Observe(e.Upstream.Seconds())
	}
	if e.Stage != "" && !e.NotConnected() { // a user who has yet to connect is nothing to be mended
		m.failures.WithLabelValues(e.Connector, e.Stage).Inc()
	}
}

// forget removes the metrics of a connector.
func (m *gatewayMetrics) forget(connector string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.connectors, connector)
	of := prometheus.Labels{"connector": connector}
	for _, c := range []*prometheus.CounterVec{m.requests, m.calls, m.exchanges, m.token, m.keys, m.keyTime, m.discovered, m.sandbox, m.fuel, m.failures, m.ahead} {
		c.DeletePartialMatch(of)
	}
	m.total.DeletePartialMatch(of)
	m.upstream.DeletePartialMatch(of)
	m.backoffs.forget(connector)
}

// attempted counts an attempt to authenticate a request, to replace a token ahead of its end, or a part of a consent.
func (m *gatewayMetrics) attempted(attempt host.Attempt) {
	m.plugins.attempted(attempt)
	m.backoffs.attempted(attempt)
	c := m.of(attempt.Connector)
	switch {
	case attempt.Consent: // it is for no request
	case attempt.Ahead && attempt.Err != nil:
		m.ahead.WithLabelValues(attempt.Connector, "failed").Inc()
	case attempt.Ahead:
		m.ahead.WithLabelValues(attempt.Connector, "done").Inc()
	case attempt.Cached:
		c.cache.Inc()
	case attempt.Reused:
		c.reuse.Inc()
	default:
		c.plugin.Inc()
	}
	c.discovered.Add(float64(attempt.Discoveries))
	if attempt.Reused {
		return // nothing was run or sent to a token endpoint
	}
	c.exchanges.Add(float64(attempt.Exchanges))
	c.token.Add(attempt.Token.Seconds())
	c.keys.Add(float64(attempt.KeyRequests))
	c.keyTime.Add(attempt.KeyTime.Seconds())
	c.sandbox.Add(attempt.Sandbox.Seconds())
	c.fuel.Add(float64(attempt.Fuel))
}

// clientCertificates returns the ends of the client certificates that were needed last, by connector, in Unix time.
func (d *daemon) clientCertificates() map[string]float64 {
	ends := map[string]float64{}
	set := d.current()
	if set == nil {
		return ends
	}
	for _, c := range set.Connectors {
		if used := set.lastCertificate(c); used != nil {
			ends[c.Definition().Permalink] = float64(used.NotAfter.Unix())
		}
	}
	return ends
}
