// SPDX-License-Identifier: Apache-2.0

package oteltrace

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// scope is the name of the meter.
const scope = "github.com/lockkeeper/lockkeeper/trace/oteltrace"

// Options are the options of Metrics. The zero value of a field means its default.
type Options struct {
	// MeterProvider creates the meter. The default is the global one.
	MeterProvider metric.MeterProvider

	// Path returns the value of the attribute "path" for the path of a lock or an
	// election, namespace included. Each value costs memory for as long as the process
	// runs: bound their number, for instance with FirstPaths. Path must be safe for
	// concurrent use and must not block. The default returns "", for which the attribute
	// is omitted.
	Path func(path string) string

	// Attributes are added to all values: those that distinguish the client from others
	// in the same process.
	Attributes []attribute.KeyValue

	_ struct{}
}

// FirstPaths returns a function for Options.Path that labels the first n paths with
// themselves, and all others with "other".
func FirstPaths(n int) func(path string) string { return metrics.FirstPaths(n) }

// Metrics are the metrics of one client. All methods are safe for concurrent use.
type Metrics struct {
	label      func(path string) string
	attributes []attribute.KeyValue
	counters   map[*metrics.Metric]metric.Int64Counter
	histograms map[*metrics.Metric]metric.Float64Histogram
	gauges     map[*metrics.Metric]metric.Float64ObservableGauge
	reads      map[*metrics.Metric]metric.Float64ObservableCounter
	callback   metric.Registration
	client     atomic.Pointer[recipes.Client]
}

// New creates the instruments of a client's metrics. opts may be nil. Pass the metrics to
// one client, with Trace and SetClient. New returns the error of a meter that refuses an
// instrument.
func New(opts *Options) (*Metrics, error) {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{
		label:      opts.Path,
		attributes: opts.Attributes,
		counters:   make(map[*metrics.Metric]metric.Int64Counter),
		histograms: make(map[*metrics.Metric]metric.Float64Histogram),
		gauges:     make(map[*metrics.Metric]metric.Float64ObservableGauge),
		reads:      make(map[*metrics.Metric]metric.Float64ObservableCounter),
	}
	if m.label == nil {
		m.label = metrics.NoPath
	}
	provider := opts.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	if err := m.create(provider.Meter(scope)); err != nil {
		return nil, fmt.Errorf("create instruments: %w", err)
	}
	return m, nil
}

func (m *Metrics) create(meter metric.Meter) (err error) {
	var observed []metric.Observable
	for _, def := range metrics.All {
		name, help, unit := "lockkeeper."+def.Name, metric.WithDescription(def.Help), metric.WithUnit(def.Unit)
		switch def.Kind {
		case metrics.Counter:
			m.counters[def], err = meter.Int64Counter(name, help, unit)
		case metrics.Histogram:
			m.histograms[def], err = meter.Float64Histogram(name, help, unit, metric.WithExplicitBucketBoundaries(def.Buckets...))
		case metrics.Gauge:
			m.gauges[def], err = meter.Float64ObservableGauge(name, help, unit)
			observed = append(observed, m.gauges[def])
		case metrics.ReadCounter:
			m.reads[def], err = meter.Float64ObservableCounter(name, help, unit)
			observed = append(observed, m.reads[def])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for def, counter := range m.counters {
		if len(def.Labels) == 0 {
			counter.Add(context.Background(), 0, m.with(def, nil)) // exists from the start, as 0
		}
	}
	m.callback, err = meter.RegisterCallback(m.observe, observed...)
	return err
}

// Trace returns the trace for the Options of the client. The caller may replace functions in
// it by functions that call them.
func (m *Metrics) Trace() *recipes.Trace { return metrics.Trace(recorder{m}, m.label) }

// SetClient sets the client whose state is collected. Until then only the metrics of events
// are. Call it once the client is connected.
func (m *Metrics) SetClient(client *recipes.Client) { m.client.Store(client) }

// Close stops the collection of the client's state.
func (m *Metrics) Close() error {
	if err := m.callback.Unregister(); err != nil {
		return fmt.Errorf("unregister the callback of the metrics: %w", err)
	}
	return nil
}

// observe is called when the meter's reader collects. It does no I/O.
func (m *Metrics) observe(_ context.Context, o metric.Observer) error {
	client := m.client.Load()
	if client == nil {
		return nil
	}
	metrics.Read(client, m.label, func(def *metrics.Metric, value float64, labels ...string) {
		if def.Kind == metrics.ReadCounter {
			o.ObserveFloat64(m.reads[def], value, m.with(def, labels))
			return
		}
		o.ObserveFloat64(m.gauges[def], value, m.with(def, labels))
	})
	return nil
}

// with returns the attributes of a value of the metric.
func (m *Metrics) with(def *metrics.Metric, labels []string) metric.MeasurementOption {
	attributes := make([]attribute.KeyValue, 0, len(labels)+len(m.attributes))
	for i, value := range labels {
		if value != "" {
			attributes = append(attributes, attribute.String(def.Labels[i], value))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(append(attributes, m.attributes...)...))
}

// A recorder records events with the instruments of Metrics.
type recorder struct{ *Metrics }

func (r recorder) Add(def *metrics.Metric, labels ...string) {
	r.counters[def].Add(context.Background(), 1, r.with(def, labels))
}

func (r recorder) Observe(def *metrics.Metric, value float64, labels ...string) {
	r.histograms[def].Record(context.Background(), value, r.with(def, labels))
}
