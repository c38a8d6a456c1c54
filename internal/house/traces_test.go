// SPDX-License-Identifier: Apache-2.0

package house

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	promtrace = module + "/trace/promtrace"
	oteltrace = module + "/trace/oteltrace"

	prometheus = "github.com/prometheus/client_golang/prometheus"
	otel       = "go.opentelemetry.io/otel"
	otelhttp   = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	otlp       = "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	protobuf   = "google.golang.org/protobuf/proto"
)

// traces says what the adapters of metrics may import, of other repositories as well: a program that exports metrics
// links them.
var traces = map[string]rule{
	promtrace: {
		may: []string{metrics, recipes, prometheus},
		tools: []string{
			metricstest, promtest, lock, zktest, testify, prometheus + "/promhttp", prometheus + "/testutil",
			"github.com/prometheus/common/expfmt", "github.com/prometheus/common/model",
		},
		because: "the program chooses how it serves the metrics",
	},
	oteltrace: {
		may: []string{metrics, recipes, otel, otel + "/attribute", otel + "/codes", otel + "/metric", otel + "/trace"},
		tools: []string{
			metricstest, lock, election, zktest, testify, otel + "/sdk/metric", otel + "/sdk/metric/metricdata", otel + "/sdk/trace",
			otel + "/sdk/trace/tracetest",
		},
		because: "the program chooses the SDK that implements the API",
	},
}

func TestMetricAdaptersImportNoServerAndNoSDK(t *testing.T) {
	for _, adapter := range []struct{ dir, path string }{{"promtrace", promtrace}, {"oteltrace", oteltrace}} {
		packages := scan(t, filepath.Join(root, "trace", adapter.dir), adapter.path)
		require.Contains(t, packages, adapter.path, "the scan finds what is there")
		require.Empty(t, violations(traces, packages))
	}
	broken := scan(t, tree(t, "trace/oteltrace/metrics.go", otel+"/sdk/metric"), module)
	require.Len(t, violations(traces, broken), 1)
}
