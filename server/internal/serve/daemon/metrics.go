package daemon

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/console"
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
var attemptSums = []struct {
	name, help string
	figure     func(host.Attempt) float64
}{
	{"token_exchanges_total", "Token requests that were sent.", func(a host.Attempt) float64 { return float64(a.Exchanges) }},
	{"token_seconds_total", "Time that token endpoints took.", func(a host.Attempt) float64 { return a.TokenTime.Seconds() }},
	{"key_requests_total", "Uses of keys of the store of keys.", func(a host.Attempt) float64 { return float64(a.KeyRequests) }},
	{"key_seconds_total", "Time that the store of keys took.", func(a host.Attempt) float64 { return a.KeyTime.Seconds() }},
	{"discoveries_total", "Times that the metadata of an issuer was read.", func(a host.Attempt) float64 { return float64(a.Discoveries) }},
	{"sandbox_seconds_total", "Time in the sandbox, waits left out.", func(a host.Attempt) float64 { return a.SandboxTime.Seconds() }},
	{"fuel_total", "Units of fuel that plugins used.", func(a host.Attempt) float64 { return float64(a.Fuel) }},
}

// connectorMetrics holds the metrics of one connector, because to look them up by labels takes longer than to count.
type connectorMetrics struct {
	upstream, total prometheus.Observer
	// plugin, cache and reuse count authentications by where the result came from.
	plugin, cache, reuse prometheus.Counter
	sums                 []prometheus.Counter
	requests             metrics.Memo[outcome, prometheus.Counter]
}

type outcome struct {
	status  int
	problem string
}

// Results of a reload.
const resultUsed, resultRefused = "used", "refused"

func newMetrics(d *daemon) *gatewayMetrics {
	r := metrics.New(d.config.Version)
	r.Flag("configuration_last_reload_successful", "1 when the file on disk is what is in use, 0 when it was refused.", func() bool { return d.since().IsZero() })
	r.Gauge("configuration_last_reload_success_timestamp_seconds", "When what is in use was read, in Unix time.", func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(d.status.Used.Unix())
	})
	r.Gauges("config_info", "1, with the SHA-256 digest of the file in use and those of its directory.", func(add metrics.Add) {
		if set := d.current(); set != nil {
			add(1, set.SHA256)
		}
	}, "sha256")
	r.Gauges("connector_timeout_seconds", "The timeout of a connector.", func(add metrics.Add) {
		d.eachConnector(func(c *gateway.Connector) { add(c.Definition().Timeout.Seconds(), c.Definition().Permalink) })
	}, "connector")
	r.Gauges("client_certificate_expiration_timestamp_seconds", "When the client certificate that a request needed last expires, in Unix time. It may have expired.", func(add metrics.Add) {
		d.eachConnector(func(c *gateway.Connector) {
			if used := c.Upstream().LastClientCertificate(); used != nil {
				add(float64(used.NotAfter.Unix()), c.Definition().Permalink)
			}
		})
	}, "connector")
	r.Gauges("session_keys_available", "1, or 0 when the keys of sessions could not be read the last time.", func(add metrics.Add) {
		if keys, issuer := d.sessionKeys(); issuer != "" {
			add(metrics.Truth(keys.Err == nil), issuer)
		}
	}, "issuer")
	r.Gauges("session_keys_read_timestamp_seconds", "When the keys of sessions were read, in Unix time.", func(add metrics.Add) {
		if keys, issuer := d.sessionKeys(); !keys.Read.IsZero() {
			add(float64(keys.Read.Unix()), issuer)
		}
	}, "issuer")
	ofConnectors := func(values func() map[string]float64) func(metrics.Add) {
		return func(add metrics.Add) {
			for connector, value := range values() {
				add(value, connector)
			}
		}
	}
	r.Gauges("backoff_seconds", "Time in which a token endpoint that refused, or an issuer that failed, is not asked.", ofConnectors(func() map[string]float64 { return d.recorder.Backoffs() }), "connector")
	r.Gauges("connector_failing", "1 when the last three requests of a connector failed, or half of the last minute's, and 0 otherwise.", ofConnectors(func() map[string]float64 { return d.recorder.Failing() }), "connector")
	r.Gauges("grants", "Connections of users by the condition of their grants, of all nodes. One node counts them, once a minute.", func(add metrics.Add) {
		if d.people != nil {
			for labels, n := range d.people.grants() {
				add(n, labels[:]...)
			}
		}
	}, "connector", "condition")
	m := &gatewayMetrics{
		Registry:  r,
		requests:  r.Counter("requests_total", "Requests of callers that were answered.", "connector", "status", "problem"),
		upstream:  r.Seconds("upstream_seconds", "Time until an API's answer began.", "connector"),
		total:     r.Seconds("request_seconds", "Time until an answer had been written.", "connector"),
		calls:     r.Counter("authentications_total", "Attempts to authenticate a request, by where the result came from: the plugin, the token cache, or an earlier call.", "connector", "from"),
		failures:  r.Counter("authentication_failures_total", "Requests that could not be authenticated.", "connector", "stage"),
		refreshes: r.Counter("refreshes_ahead_total", "Calls of a plugin that were to replace a token ahead of its end.", "connector", "result"),
		reloads:   r.Counter("configuration_reloads_total", "Times that the file was read again, by whether it came into use.", "result"),
		plugins: &pluginMetrics{
			Registry: r,
			calls:    r.Counter("plugin_calls_total", "Attempts to authenticate a request for which the plugin ran, by auth type.", "type"),
			failures: r.Counter("plugin_failures_total", "Attempts that failed because of the plugin, by auth type and by what the plugin did.", "type", "reason"),
			fuel:     r.Histogram("plugin_fuel", "Units of fuel that a plugin used in a run, of each attempt the run with the most.", fuelBuckets, "type"),
		},
	}
	for _, sum := range attemptSums {
		m.sums = append(m.sums, r.Counter(sum.name, sum.help, "connector"))
	}
	for _, result := range []string{resultUsed, resultRefused} {
		m.reloads.WithLabelValues(result) // shown from the start, so that the first reload is an increase
	}
	return m
}

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

func (m *gatewayMetrics) forget(connector string) {
	m.Forget("connector", connector) // before Remove: after it there may be a new entry, whose metrics count
	m.connectors.Remove(func(name string) bool { return name == connector })
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
	for i, sum := range attemptSums {
		if n := sum.figure(attempt); n != 0 {
			c.sums[i].Add(n)
		}
	}
}

// sessionKeys returns the keys of sessions and their issuer, which is "" without such keys.
func (d *daemon) sessionKeys() (keys identity.Keys, issuer string) {
	set := d.current()
	if set == nil || set.sessions == nil || set.Settings.User.JWT == nil {
		return keys, ""
	}
	return set.sessions.Keys(), set.Settings.User.JWT.Issuer
}

// eachConnector calls f for each connector in use.
func (d *daemon) eachConnector(f func(*gateway.Connector)) {
	if set := d.current(); set != nil {
		for _, c := range set.Connectors {
			f(c)
		}
	}
}

// pluginMetrics holds the metrics that show how well each plugin works, by its auth type.
type pluginMetrics struct {
	*metrics.Registry
	calls    *prometheus.CounterVec
	failures *prometheus.CounterVec
	fuel     *prometheus.HistogramVec
	types    metrics.Memo[string, *typeMetrics]
}

type typeMetrics struct {
	calls    prometheus.Counter
	fuel     prometheus.Histogram
	failures map[host.PluginFailure]prometheus.Counter
	// maxFuel is the most fuel of a run.
	maxFuel atomic.Int64
}

var fuelBuckets = []float64{10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000}

// ofType makes the metrics of an auth type. A failure of each kind is shown from the start, so that the first one is an increase.
func (m *pluginMetrics) ofType(authType string) *typeMetrics {
	t := &typeMetrics{
		calls: m.calls.WithLabelValues(authType), fuel: m.fuel.WithLabelValues(authType).(prometheus.Histogram), //nolint:forcetypeassert // of a HistogramVec
		failures: map[host.PluginFailure]prometheus.Counter{},
	}
	for _, reason := range []host.PluginFailure{host.FailureFuel, host.FailureTime, host.FailureMemory, host.FailureTrap, host.FailureAnswer} {
		t.failures[reason] = m.failures.WithLabelValues(authType, string(reason))
	}
	return t
}

// attempted counts an attempt, unless the plugin did not run.
func (m *pluginMetrics) attempted(attempt host.Attempt) {
	if attempt.Runs == 0 {
		return
	}
	t := m.types.Of(attempt.AuthType, m.ofType)
	t.calls.Inc()
	t.fuel.Observe(float64(attempt.MostFuel))
	for maxFuel := t.maxFuel.Load(); attempt.MostFuel > maxFuel && !t.maxFuel.CompareAndSwap(maxFuel, attempt.MostFuel); {
		maxFuel = t.maxFuel.Load()
	}
	if counter := t.failures[attempt.Failure]; counter != nil {
		counter.Inc()
	}
}

// fuelOf returns the fuel of the runs of an auth type. The median is the upper bound of its bucket, or the most if less.
func (m *pluginMetrics) fuelOf(authType string) console.Fuel {
	t, ok := m.types.Find(authType)
	var metric dto.Metric
	if !ok || t.fuel.Write(&metric) != nil {
		return console.Fuel{}
	}
	maxFuel := t.maxFuel.Load()
	f := console.Fuel{Runs: metric.GetHistogram().GetSampleCount(), Median: maxFuel, Worst: maxFuel}
	for _, bucket := range metric.GetHistogram().GetBucket() {
		if 2*bucket.GetCumulativeCount() >= f.Runs {
			f.Median = min(maxFuel, int64(bucket.GetUpperBound()))
			break
		}
	}
	return f
}

// keep removes the metrics of auth types that are not in use.
func (m *pluginMetrics) keep(used map[string]bool) {
	m.types.Remove(func(authType string) bool {
		if !used[authType] {
			m.Forget("type", authType)
		}
		return !used[authType]
	})
}
