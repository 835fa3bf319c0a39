package daemon

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/console"
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
	used     usage
}

// fuelBuckets are the upper bounds of the fuel of a run.
var fuelBuckets = []float64{10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000}

// usage counts the fuel of runs, for people.
type usage struct {
	mu sync.Mutex
	// counts has the number of runs for each of fuelBuckets, and at its end that of runs beyond them.
	counts []uint64
	most   int64
}

// count counts a run.
func (u *usage) count(fuel int64) {
	at, _ := slices.BinarySearch(fuelBuckets, float64(fuel))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts = make([]uint64, len(fuelBuckets)+1)
	}
	u.counts[at]++
	u.most = max(u.most, fuel)
}

// shown returns the usage for the console. The median is the upper bound of its bucket, or the most fuel of a run if that is less.
func (u *usage) shown() console.Fuel {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := console.Fuel{Worst: u.most}
	for _, n := range u.counts {
		f.Runs += n
	}
	passed := uint64(0)
	for i, n := range u.counts {
		if passed += n; 2*passed >= f.Runs {
			if f.Median = u.most; i < len(fuelBuckets) {
				f.Median = min(u.most, int64(fuelBuckets[i]))
			}
			break
		}
	}
	return f
}

// fuelOf returns the fuel that the runs of an auth type used.
func (m *pluginMetrics) fuelOf(authType string) console.Fuel {
	m.mu.RLock()
	known := m.types[authType]
	m.mu.RUnlock()
	if known == nil {
		return console.Fuel{}
	}
	return known.used.shown()
}

func newPluginMetrics(r *metrics.Registry) *pluginMetrics {
	return &pluginMetrics{
		calls:    r.Counter("plugin_calls_total", "Attempts to authenticate a request for which the plugin ran, by auth type.", "type"),
		failures: r.Counter("plugin_failures_total", "Attempts that failed because of the plugin, by auth type and by what the plugin did.", "type", "reason"),
		fuel: r.Histogram("plugin_fuel", "Units of fuel that a plugin used in a run, of each attempt the run with the most.",
			fuelBuckets, "type"),
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
	t.used.count(attempt.MostFuel)
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
