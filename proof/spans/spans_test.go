// SPDX-License-Identifier: Apache-2.0

// Package spans contains only tests: the requests of the lock service in the traces of its callers.
package spans

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// start starts a service whose requests are recorded with the provider, and returns its URL. It stops with the test.
func start(t *testing.T, provider api.TracerProvider) string {
	t.Helper()
	started, ended := make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- service.Run(ctx, service.Config{
			Dev: true, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Started: func(url string) { started <- url },
			Middleware: otelhttp.NewMiddleware("lockkeeper",
				otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{})),
		})
	}()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	select {
	case url := <-started:
		return url
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return ""
	}
}

func TestRequestsOfServiceContinueTraceOfCaller(t *testing.T) {
	served, sent := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	server, caller := trace.NewTracerProvider(trace.WithSyncer(served)), trace.NewTracerProvider(trace.WithSyncer(sent))
	locks, err := client.New(start(t, server), &client.Options{Transport: func(base http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(base, otelhttp.WithTracerProvider(caller), otelhttp.WithPropagators(propagation.TraceContext{}))
	}})
	require.NoError(t, err)
	ctx, parent := caller.Tracer("program").Start(t.Context(), "order")
	hold, err := locks.Lock(ctx, "team", "orders")
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(ctx))
	require.NoError(t, locks.Close())
	parent.End()

	require.Eventually(t, func() bool { return len(served.GetSpans()) >= 2 }, time.Minute, time.Millisecond) // they end after the answer
	requests := map[api.SpanID]bool{}
	for _, span := range sent.GetSpans() {
		requests[span.SpanContext.SpanID()] = true
	}
	for _, span := range served.GetSpans() {
		require.Equal(t, parent.SpanContext().TraceID(), span.SpanContext.TraceID())
		require.True(t, span.Parent.IsRemote())
		require.True(t, requests[span.Parent.SpanID()], "a request of the client is the parent")
		require.Contains(t, span.Name, " /v1/locks/{", "and its route is the name")
	}
}

// An event stream flushes, and sets deadlines of its connection.
func TestEventStreamWorksBehindMiddleware(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	locks, err := client.New(start(t, trace.NewTracerProvider(trace.WithSyncer(exporter))), nil)
	require.NoError(t, err)
	hold, err := locks.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	for status, err := range locks.Observe(t.Context(), "team", "orders") {
		require.NoError(t, err)
		require.NotNil(t, status)
		if hold == nil {
			break
		}
		require.NoError(t, hold.Unlock(t.Context()))
		hold = nil
	}
	require.NoError(t, locks.Close())
}
