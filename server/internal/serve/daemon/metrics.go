package daemon

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// gatewayMetrics holds the metrics of /metrics. The values of labels come from the configuration or from fixed lists, so that
// callers cannot increase their number.
type gatewayMetrics struct {
	*metrics.Registry

	requests  *prometheus.CounterVec
	upstream  *prometheus.HistogramVec
	total     *prometheus.HistogramVec
	calls     *prometheus.CounterVec
	failures  *prometheus.CounterVec
	refreshes *prometheus.CounterVec
	reloads   *prometheus.CounterVec
	// sums has a counter for each of attemptSums.
	sums    []*prometheus.CounterVec
	plugins *pluginMetrics

	connectors metrics.Memo[string, *connectorMetrics]
}

// attemptSums are the counters that add up figures of attempts.
var attemptSums = [...]struct{ name, help string }{
	{"token_exchanges_total", "Token requests that were sent."},
	{"token_seconds_total", "Time that token endpoints took."},
	{"key_requests_total", "Uses of keys of the store of keys."},
	{"key_seconds_total", "Time that the store of keys took."},
	{"discoveries_total", "Times that the metadata of an issuer was read."},
	{"sandbox_seconds_total", "Time in the sandbox, waits left out."},
	{"fuel_total", "Units of fuel that plugins used."},
}

// figures returns what an attempt adds to attemptSums.
func figures(a *host.Attempt) [len(attemptSums)]float64 {
	return [...]float64{
		float64(a.Exchanges), a.TokenTime.Seconds(), float64(a.KeyRequests), a.KeyTime.Seconds(), float64(a.Discoveries),
		a.SandboxTime.Seconds(), float64(a.Fuel),
	}
}

// connectorMetrics holds the metrics of one connector, because to look them up by labels for each request takes longer than
// to count it.
type connectorMetrics struct {
	upstream, total prometheus.Observer
	// plugin, cache and reuse count authentications by where the result came from.
	plugin, cache, reuse prometheus.Counter
	sums                 []prometheus.Counter
	requests             metrics.Memo[outcome, prometheus.Counter]
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
	r.Flag("configuration_last_reload_successful", "1 when the file on disk is what is in use, 0 when it was refused.", func() bool { return d.since().IsZero() })
	r.Gauge("configuration_last_reload_success_timestamp_seconds", "When what is in use was read, in Unix time.", func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(d.used.Unix())
	})
	r.Gauges("client_certificate_expiration_timestamp_seconds", "When the client certificate that a request needed last expires, in Unix time. It may have expired.", "connector", d.clientCertificates)
	r.Gauges("session_keys_available", "1, or 0 when the keys of sessions could not be read the last time.", "issuer", func() map[string]float64 {
		return d.sessionKeys(func(keys identity.Keys) (float64, bool) { return metrics.Truth(keys.Err == nil), true })
	})
	r.Gauges("session_keys_read_timestamp_seconds", "When the keys of sessions were read, in Unix time.", "issuer", func() map[string]float64 {
		return d.sessionKeys(func(keys identity.Keys) (float64, bool) { return float64(keys.Read.Unix()), !keys.Read.IsZero() })
	})
	r.Gauges("backoff_seconds", "Time in which a token endpoint that refused, or an issuer that failed, is not asked.", "connector",
		func() map[string]float64 { return d.recorder.Backoffs() })
	m := &gatewayMetrics{
		Registry:  r,
		requests:  r.Counter("requests_total", "Requests of callers that were answered.", "connector", "status", "problem"),
		upstream:  r.Seconds("upstream_seconds", "Time until an API's answer began.", "connector"),
		total:     r.Seconds("request_seconds", "Time until an answer had been written.", "connector"),
		calls:     r.Counter("authentications_total", "Attempts to authenticate a request, by where the result came from: the plugin, the token cache, or an earlier call.", "connector", "from"),
		failures:  r.Counter("authentication_failures_total", "Requests that could not be authenticated.", "connector", "stage"),
		refreshes: r.Counter("refreshes_ahead_total", "Calls of a plugin that were to replace a token ahead of its end.", "connector", "result"),
		reloads:   r.Counter("configuration_reloads_total", "Times that the file was read again, by whether it came into use.", "result"),
		plugins:   newPluginMetrics(r),
	}
	for _, sum := range attemptSums {
		m.sums = append(m.sums, r.Counter(sum.name, sum.help, "connector"))
	}
	for _, result := range []string{resultUsed, resultRefused} {
		m.reloads.WithLabelValues(result) // shown from the start, so that the first reload is an increase
	}
	return m
}

// ofConnector makes the metrics of a connector.
func (m *gatewayMetrics) ofConnector(connector string) *connectorMetrics {
	c := &connectorMetrics{
		upstream: m.upstream.WithLabelValues(connector), total: m.total.WithLabelValues(connector),
		plugin: m.calls.WithLabelValues(connector, "plugin"), cache: m.calls.WithLabelValues(connector, "cache"), reuse: m.calls.WithLabelValues(connector, "reuse"),
	}
	for _, sum := range m.sums {
		c.sums = append(c.sums, sum.WithLabelValues(connector))
	}
	return c
}

// request counts a request. It is called by gateway.Config.Observe.
func (m *gatewayMetrics) request(e gateway.Event) {
	if e.Connector == "" {
		m.requests.WithLabelValues("", strconv.Itoa(e.Status), e.Problem).Inc()
		return
	}
	c := m.connectors.Of(e.Connector, m.ofConnector)
	c.requests.Of(outcome{e.Status, e.Problem}, func(how outcome) prometheus.Counter {
		return m.requests.WithLabelValues(e.Connector, strconv.Itoa(how.status), how.problem)
	}).Inc()
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
	m.connectors.Remove(func(name string) bool {
		if name == connector {
			m.Forget("connector", connector)
		}
		return name == connector
	})
}

// attempted counts an attempt to authenticate a request, to replace a token ahead of its end, or a part of a consent.
func (m *gatewayMetrics) attempted(attempt host.Attempt) {
	m.plugins.attempted(attempt)
	c := m.connectors.Of(attempt.Connector, m.ofConnector)
	switch {
	case attempt.Consent: // it is for no request
	case attempt.Ahead && attempt.Err != nil:
		m.refreshes.WithLabelValues(attempt.Connector, "failed").Inc()
	case attempt.Ahead:
		m.refreshes.WithLabelValues(attempt.Connector, "done").Inc()
	case attempt.Cached:
		c.cache.Inc()
	case attempt.Reused:
		c.reuse.Inc()
	default:
		c.plugin.Inc()
	}
	for i, n := range figures(&attempt) {
		if n != 0 {
			c.sums[i].Add(n)
		}
	}
}

// sessionKeys returns what value returns of the keys of sessions, by issuer. It is empty without such keys.
func (d *daemon) sessionKeys(value func(identity.Keys) (v float64, ok bool)) map[string]float64 {
	all := map[string]float64{}
	set := d.current()
	if set == nil || set.sessions == nil || set.Settings.User.JWT == nil {
		return all
	}
	if v, ok := value(set.sessions.Keys()); ok {
		all[set.Settings.User.JWT.Issuer] = v
	}
	return all
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
