package daemon

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/console"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// pluginMetrics holds the metrics that show how well each plugin works, by its auth type.
type pluginMetrics struct {
	*metrics.Registry
	calls    *prometheus.CounterVec
	failures *prometheus.CounterVec
	fuel     *prometheus.HistogramVec
	types    metrics.Memo[string, *typeMetrics]
}

// typeMetrics holds the metrics of one auth type.
type typeMetrics struct {
	calls    prometheus.Counter
	fuel     prometheus.Histogram
	failures map[host.PluginFailure]prometheus.Counter
	// maxFuel is the most fuel of a run.
	maxFuel atomic.Int64
}

// fuelBuckets are the upper bounds of the fuel of a run.
var fuelBuckets = []float64{10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000}

func newPluginMetrics(r *metrics.Registry) *pluginMetrics {
	return &pluginMetrics{
		Registry: r,
		calls:    r.Counter("plugin_calls_total", "Attempts to authenticate a request for which the plugin ran, by auth type.", "type"),
		failures: r.Counter("plugin_failures_total", "Attempts that failed because of the plugin, by auth type and by what the plugin did.", "type", "reason"),
		fuel: r.Histogram("plugin_fuel", "Units of fuel that a plugin used in a run, of each attempt the run with the most.",
			fuelBuckets, "type"),
	}
}

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

// fuelOf returns the fuel that the runs of an auth type used, for the console. The median is the upper bound of its bucket, or the most
// fuel of a run if that is less.
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
