// SPDX-License-Identifier: Apache-2.0

package promtrace

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of Metrics. The zero value of a field means its default.
type Options struct {
	// Path returns the value of the label "path" for the path of a lock or an election,
	// namespace included. Each value costs about 55 series, for as long as the process
	// runs: bound their number, for instance with FirstPaths. Path must be safe for
	// concurrent use and must not block. The default returns "", which Prometheus treats
	// as no label.
	Path func(path string) string

	_ struct{}
}

// FirstPaths returns a function for Options.Path that labels the first n paths with
// themselves, and all others with "other".
func FirstPaths(n int) func(path string) string { return metrics.FirstPaths(n) }

// Metrics are the metrics of one client, as a prometheus.Collector. All methods are safe for
// concurrent use.
type Metrics struct {
	label      func(path string) string
	counters   map[*metrics.Metric]*prometheus.CounterVec
	histograms map[*metrics.Metric]*prometheus.HistogramVec
	reads      map[*metrics.Metric]*prometheus.Desc // of the client
	client     atomic.Pointer[recipes.Client]
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns the metrics of a client. opts may be nil. Register them, and pass them to one
// client, with Trace and SetClient. The metrics of a second client in the same process need
// a label of their own: see prometheus.WrapRegistererWith.
func New(opts *Options) *Metrics {
	m := &Metrics{
		label:      metrics.NoPath,
		counters:   make(map[*metrics.Metric]*prometheus.CounterVec),
		histograms: make(map[*metrics.Metric]*prometheus.HistogramVec),
		reads:      make(map[*metrics.Metric]*prometheus.Desc),
	}
	if opts != nil && opts.Path != nil {
		// The vectors panic over a value that is not UTF-8.
		m.label = func(path string) string { return strings.ToValidUTF8(opts.Path(path), "\uFFFD") }
	}
	for _, def := range metrics.All {
		switch def.Kind {
		case metrics.Counter:
			m.counters[def] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(def), Help: def.Help}, def.Labels)
			if len(def.Labels) == 0 {
				m.counters[def].WithLabelValues() // exists from the start, as 0
			}
		case metrics.Histogram:
			m.histograms[def] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: name(def), Help: def.Help, Buckets: def.Buckets,
			}, def.Labels)
		case metrics.Gauge, metrics.ReadCounter:
			m.reads[def] = prometheus.NewDesc(name(def), def.Help, def.Labels, nil)
		}
	}
	return m
}

// name returns the name of a metric by Prometheus's conventions.
func name(m *metrics.Metric) string {
	parts := []string{"lockkeeper", m.Name}
	if m.Unit == metrics.Seconds {
		parts = append(parts, "seconds")
	}
	if m.Kind == metrics.Counter || m.Kind == metrics.ReadCounter {
		parts = append(parts, "total")
	}
	return strings.Join(parts, "_")
}

// Trace returns the trace for the Options of the client. The caller may replace functions in
// it by functions that call them.
func (m *Metrics) Trace() *recipes.Trace { return metrics.Trace(recorder{m}, m.label) }

// SetClient sets the client whose state is collected. Until then only the metrics of events
// are. Call it once the client is connected.
func (m *Metrics) SetClient(client *recipes.Client) { m.client.Store(client) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range m.counters {
		c.Describe(descs)
	}
	for _, h := range m.histograms {
		h.Describe(descs)
	}
	for _, desc := range m.reads {
		descs <- desc
	}
}

// Collect implements prometheus.Collector. It does no I/O.
func (m *Metrics) Collect(values chan<- prometheus.Metric) {
	for _, c := range m.counters {
		c.Collect(values)
	}
	for _, h := range m.histograms {
		h.Collect(values)
	}
	client := m.client.Load()
	if client == nil {
		return
	}
	metrics.Read(client, m.label, func(def *metrics.Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if def.Kind == metrics.ReadCounter {
			kind = prometheus.CounterValue
		}
		values <- prometheus.MustNewConstMetric(m.reads[def], kind, value, labels...)
	})
}

// A recorder records events in the vectors of Metrics.
type recorder struct{ *Metrics }

func (r recorder) Add(def *metrics.Metric, labels ...string) {
	r.counters[def].WithLabelValues(labels...).Inc()
}

func (r recorder) Observe(def *metrics.Metric, value float64, labels ...string) {
	r.histograms[def].WithLabelValues(labels...).Observe(value)
}
