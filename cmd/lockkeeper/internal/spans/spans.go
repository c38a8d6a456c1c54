// SPDX-License-Identifier: Apache-2.0

// Package spans sends spans of the service's requests to a collector of OpenTelemetry.
package spans

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// flushTimeout bounds how long a collector that does not answer delays the end of the service.
const flushTimeout = 5 * time.Second

// FromEnvironment returns a middleware that records a span for each request but probes and scrapes, in its caller's trace, and
// a function that sends the last spans. The middleware is nil if the environment names no collector. Errors are of the
// environment: the collector is not asked. No request waits for it: spans are dropped while too many wait.
func FromEnvironment(ctx context.Context, version string, logger *slog.Logger) (middleware func(http.Handler) http.Handler, flush func(), err error) {
	collector := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if collector == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, func() {}, nil
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != "http/protobuf" {
		return nil, nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %s: spans are sent by http/protobuf only", protocol)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "lockkeeper"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describe the service in spans: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx) // it reads the other variables
	if err != nil {
		return nil, nil, fmt.Errorf("send spans to %s: %w", collector, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("send spans", "collector", collector, "err", err) }))
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	middleware = otelhttp.NewMiddleware("lockkeeper",
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}))
	return middleware, func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer stop()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("send the last spans", "collector", collector, "err", err)
		}
	}, nil
}
