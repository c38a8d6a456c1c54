// SPDX-License-Identifier: Apache-2.0

package oteltrace_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/internal/metrics/metricstest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/oteltrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestEachMetricChangesWithItsEvent(t *testing.T) {
	metricstest.Run(t, func() (metricstest.Adapter, func() metricstest.Values) {
		reader := metric.NewManualReader()
		m, err := oteltrace.New(&oteltrace.Options{
			MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), Path: oteltrace.FirstPaths(2),
		})
		require.NoError(t, err)
		return m, func() metricstest.Values { return collect(t, reader) }
	})
}

// collect returns the values that the reader exports, with Prometheus's names, as OpenTelemetry
// specifies them for its exporters.
func collect(t *testing.T, reader metric.Reader) metricstest.Values {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	values := metricstest.Values{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.ReplaceAll(m.Name, ".", "_") + map[string]string{"s": "_seconds"}[m.Unit]
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				require.True(t, d.IsMonotonic)
				for _, p := range d.DataPoints {
					values[series(name+"_total", p.Attributes)] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				require.True(t, d.IsMonotonic)
				for _, p := range d.DataPoints {
					values[series(name+"_total", p.Attributes)] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					values[series(name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					values[series(name+"_count", p.Attributes)] = float64(p.Count)
					values[series(name+"_sum", p.Attributes)] = p.Sum
				}
			default:
				require.Fail(t, "unknown kind of data", "%s: %T", name, d)
			}
		}
	}
	return values
}

// series returns a name with labels, in the order of their keys.
func series(name string, attributes attribute.Set) string {
	var labels []string
	for _, a := range attributes.ToSlice() {
		labels = append(labels, fmt.Sprintf("%s=%q", a.Key, a.Value.AsString()))
	}
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func TestBucketsAreThoseOfPrometheus(t *testing.T) {
	reader := metric.NewManualReader()
	locked(t, &oteltrace.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "lockkeeper."+metrics.Hold.Name {
			require.Equal(t, metrics.Hold.Buckets, m.Data.(metricdata.Histogram[float64]).DataPoints[0].Bounds)
			return
		}
	}
	require.Fail(t, "no metric for holds")
}

// locked returns the metrics of a client that has held a lock.
func locked(t *testing.T, opts *oteltrace.Options) *oteltrace.Metrics {
	t.Helper()
	m, err := oteltrace.New(opts)
	require.NoError(t, err)
	client, err := recipes.Connect(t.Context(), zktest.Start(t, nil).Addrs(), &recipes.Options{
		Trace: m.Trace(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	m.SetClient(client)
	mu, err := lock.New(client, "/a", nil)
	require.NoError(t, err)
	hold, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(t.Context()))
	client.Close() // returns when all events are recorded
	return m
}

func TestGlobalMeterProviderAndNoPathAreTheDefaults(t *testing.T) {
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	locked(t, nil)
	values := collect(t, reader)
	require.InDelta(t, 1, values[`lockkeeper_wait_seconds_count`], 0)
	require.NotContains(t, fmt.Sprint(values), "path")
}

func TestAttributesDistinguishClients(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	for _, name := range []string{"blue", "green"} {
		locked(t, &oteltrace.Options{MeterProvider: provider, Attributes: []attribute.KeyValue{attribute.String("client", name)}})
	}
	values := collect(t, reader)
	for _, name := range []string{"blue", "green"} {
		require.InDelta(t, 1, values[fmt.Sprintf(`lockkeeper_wait_seconds_count{client=%q}`, name)], 0)
		require.Contains(t, values, fmt.Sprintf(`lockkeeper_ready{client=%q}`, name))
	}
}

func TestClosedMetricsNoLongerReadTheClient(t *testing.T) {
	reader := metric.NewManualReader()
	m := locked(t, &oteltrace.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	require.Contains(t, collect(t, reader), `lockkeeper_ready`)
	require.NoError(t, m.Close())
	require.NotContains(t, collect(t, reader), `lockkeeper_ready`)
}
