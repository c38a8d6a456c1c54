// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/internal/metrics/metricstest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestEachMetricChangesWithItsEvent(t *testing.T) {
	metricstest.Run(t, func() (metricstest.Adapter, func() metricstest.Values) {
		m := promtrace.New(&promtrace.Options{Path: promtrace.FirstPaths(2)})
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(m))
		return m, func() metricstest.Values { return scrape(t, registry) }
	})
}

// scrape returns the values that Prometheus would read.
func scrape(t *testing.T, registry *prometheus.Registry) metricstest.Values {
	t.Helper()
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, response.Code)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	values := metricstest.Values{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			suffix := ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			if h := m.GetHistogram(); h != nil {
				values[name+"_count"+suffix], values[name+"_sum"+suffix] = float64(h.GetSampleCount()), h.GetSampleSum()
				continue
			}
			values[name+suffix] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

func TestNamesFollowThePrometheusConventions(t *testing.T) {
	m, registry := connected(t, nil)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	descs := make(chan *prometheus.Desc, len(metrics.All))
	m.Describe(descs)
	close(descs)
	described := ""
	for desc := range descs {
		described += desc.String()
	}
	for _, def := range metrics.All {
		require.Contains(t, described, fmt.Sprintf("fqName: %q", metricstest.Name(def)))
	}
}

// connected returns the metrics of a client that has held a lock on each of three paths.
func connected(t *testing.T, opts *promtrace.Options) (*promtrace.Metrics, *prometheus.Registry) {
	t.Helper()
	m, registry := promtrace.New(opts), prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	server := zktest.Start(t, nil)
	client, err := recipes.Connect(t.Context(), server.Addrs(), &recipes.Options{Trace: m.Trace(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	m.SetClient(client)
	for _, path := range []string{"/a", "/b", "/c"} {
		mu, err := lock.New(client, path, nil)
		require.NoError(t, err)
		hold, err := mu.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
	}
	client.Close() // returns when all events are recorded
	return m, registry
}

func TestPathsHaveNoLabelByDefault(t *testing.T) {
	_, registry := connected(t, nil)
	values := scrape(t, registry)
	require.InDelta(t, 3, values[`lockkeeper_wait_seconds_count{path=""}`], 0)
	require.NotContains(t, fmt.Sprint(values), "/a")
}

func TestPathsBeyondTheFirstShareALabel(t *testing.T) {
	_, registry := connected(t, &promtrace.Options{Path: promtrace.FirstPaths(1)})
	values := scrape(t, registry)
	require.InDelta(t, 1, values[`lockkeeper_wait_seconds_count{path="/a"}`], 0)
	require.InDelta(t, 2, values[`lockkeeper_wait_seconds_count{path="other"}`], 0)
}

func TestLabelThatIsNotUTF8IsRepaired(t *testing.T) {
	_, registry := connected(t, &promtrace.Options{Path: func(string) string { return "/\xff" }})
	require.InDelta(t, 3, scrape(t, registry)["lockkeeper_wait_seconds_count{path=\"/\uFFFD\"}"], 0)
}

func TestMetricsOfEventsAreCollectedWithoutClient(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(promtrace.New(nil)))
	values := scrape(t, registry)
	require.Contains(t, values, `lockkeeper_outages_total`)
	require.NotContains(t, values, `lockkeeper_ready`)
}
