package daemon

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/metrics"
)

// pluginMetrics holds the metrics that show how well each plugin works, by its auth type.
type pluginMetrics struct {
	calls    *prometheus.CounterVec
	failures *prometheus.CounterVec
	fuel     *prometheus.HistogramVec

	mu    sync.RWMutex
	types map[string]*typeMetrics
}

// typeMetrics holds the metrics of one auth type.
type typeMetrics struct {
	calls    prometheus.Counter
	fuel     prometheus.Observer
	failures map[host.PluginFailure]prometheus.Counter
}

func newPluginMetrics(r *metrics.Registry) *pluginMetrics {
	return &pluginMetrics{
		calls:    r.Counter("plugin_calls_total", "Attempts to authenticate a request for which the plugin ran, by auth type.", "type"),
		failures: r.Counter("plugin_failures_total", "Attempts that failed because of the plugin, by auth type and by what the plugin did.", "type", "reason"),
		fuel: r.Histogram("plugin_fuel", "Units of fuel that a plugin used in a run, of each attempt the run with the most.",
			[]float64{10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000}, "type"),
		types: map[string]*typeMetrics{},
	}
}

// of returns the metrics of an auth type, and creates them if necessary. A failure of each kind is shown from the start, so that the
// first one is an increase.
func (m *pluginMetrics) of(authType string) *typeMetrics {
	m.mu.RLock()
	known := m.types[authType]
	m.mu.RUnlock()
	if known != nil {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known = m.types[authType]; known == nil {
		known = &typeMetrics{calls: m.calls.WithLabelValues(authType), fuel: m.fuel.WithLabelValues(authType), failures: map[host.PluginFailure]prometheus.Counter{}}
		for _, reason := range host.PluginFailures {
			known.failures[reason] = m.failures.WithLabelValues(authType, string(reason))
		}
		m.types[authType] = known
	}
	return known
}

// attempted counts an attempt, unless the plugin did not run.
func (m *pluginMetrics) attempted(attempt host.Attempt) {
	if attempt.Runs == 0 {
		return
	}
	t := m.of(attempt.Type)
	t.calls.Inc()
	t.fuel.Observe(float64(attempt.MostFuel))
	if counter := t.failures[attempt.Failure]; counter != nil {
		counter.Inc()
	}
}

// keep removes the metrics of auth types that are not in use.
func (m *pluginMetrics) keep(used map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for authType := range m.types {
		if !used[authType] {
			delete(m.types, authType)
			m.calls.DeleteLabelValues(authType)
			m.fuel.DeleteLabelValues(authType)
			m.failures.DeletePartialMatch(prometheus.Labels{"type": authType})
		}
	}
}
