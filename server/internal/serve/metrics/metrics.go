// Package metrics provides the metrics that a server exposes to Prometheus under /metrics.
package metrics

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of a program, including those of its process and of the Go runtime. It puts keywright_ before
// their names. The values of labels must come from the configuration or from a fixed list, and not grow with requests.
type Registry struct {
	registry *prometheus.Registry
	// labelled has the metrics with labels that were counted.
	labelled []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}
}

// New returns a Registry of a version of the program.
func New(version string) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.Gauges("build_info", "1, with the version of the program.", func(add Add) { add(1, version) }, "version")
	return r
}

// Counter adds a counter.
func (r *Registry) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "keywright", Name: name, Help: help}, labels)
	r.registry.MustRegister(c)
	r.labelled = append(r.labelled, c)
	return c
}

// Seconds adds a histogram of durations from a millisecond to half a minute.
func (r *Registry) Seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	return r.Histogram(name, help, []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, labels...)
}

// Histogram adds a histogram with the upper bounds of its buckets.
func (r *Registry) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "keywright", Name: name, Help: help, Buckets: buckets}, labels)
	r.registry.MustRegister(h)
	r.labelled = append(r.labelled, h)
	return h
}

// Forget removes the counters and histograms with a value of a label.
func (r *Registry) Forget(label, value string) {
	for _, m := range r.labelled {
		m.DeletePartialMatch(prometheus.Labels{label: value})
	}
}

// Gauge adds a gauge. value is called for each request of the metrics.
func (r *Registry) Gauge(name, help string, value func() float64) {
	r.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "keywright", Name: name, Help: help}, value))
}

// Flag adds a gauge that is 1 while value returns true, and 0 otherwise.
func (r *Registry) Flag(name, help string, value func() bool) {
	r.Gauge(name, help, func() float64 { return Truth(value()) })
}

// Truth returns 1 for true, and 0 otherwise.
func Truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// Total adds a counter whose value is kept elsewhere. value is called for each request of the metrics.
func (r *Registry) Total(name, help string, value func() float64) {
	r.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "keywright", Name: name, Help: help}, value))
}

// Add adds the value of a gauge for the values of its labels.
type Add = func(value float64, labels ...string)

// Gauges adds a gauge with labels. values is called for each request of the metrics, and adds each value.
func (r *Registry) Gauges(name, help string, values func(add Add), labels ...string) {
	r.registry.MustRegister(&gauges{prometheus.NewDesc("keywright_"+name, help, labels, nil), values})
}

type gauges struct {
	description *prometheus.Desc
	values      func(add Add)
}

func (g *gauges) Describe(all chan<- *prometheus.Desc) { all <- g.description }

func (g *gauges) Collect(all chan<- prometheus.Metric) {
	g.values(func(value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(g.description, prometheus.GaugeValue, value, labels...)
	})
}

// Certificate adds a gauge of the time when the certificate of a listener expires.
func (r *Registry) Certificate(notAfter func() time.Time) {
	r.Gauge("certificate_expiration_timestamp_seconds", "When the certificate that callers see expires, in Unix time.", func() float64 { return float64(notAfter().Unix()) })
}

// Handler returns the handler of /metrics.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{})
}

// Memo holds a value for each key, such as the metrics of a connector: to look them up by their labels takes longer than to count. The
// zero value is empty. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu     sync.RWMutex
	values map[K]V
}

// Of returns the value of a key. If there is none, it is the result of create.
func (m *Memo[K, V]) Of(key K, create func(K) V) V {
	if v, ok := m.Find(key); ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	if !ok {
		if m.values == nil {
			m.values = map[K]V{}
		}
		v = create(key)
		m.values[key] = v
	}
	return v
}

// Find returns the value of a key, if there is one.
func (m *Memo[K, V]) Find(key K) (v V, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok = m.values[key]
	return v, ok
}

// All returns a copy of all values, by key.
func (m *Memo[K, V]) All() map[K]V {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.values)
}

// Remove removes the values of the keys for which stale returns true.
func (m *Memo[K, V]) Remove(stale func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key K, _ V) bool { return stale(key) })
}
