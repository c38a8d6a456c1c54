// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// newCollector starts an OpenTelemetry collector, and returns its URL and what it receives.
func newCollector(t *testing.T) (string, <-chan *collector.ExportTraceServiceRequest) {
	t.Helper()
	received := make(chan *collector.ExportTraceServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		export := &collector.ExportTraceServiceRequest{}
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, export) != nil {
			http.Error(w, "not an export of spans", http.StatusBadRequest)
			return
		}
		received <- export
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

func TestServeSendsSpanOfRequestInItsCallersTrace(t *testing.T) {
	url, received := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	service, stop := startServe(t)
	for path, method := range map[string]string{
		"/healthz": http.MethodGet, "/readyz": http.MethodGet, "/metrics": http.MethodGet, "/v1/locks/team/orders/acquire": http.MethodPost,
	} {
		body := strings.NewReader(`{"ownerId": "w1", "requestId": "r1"}`)
		req, err := http.NewRequestWithContext(t.Context(), method, service+path, body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("traceparent", "00-"+trace+"-"+parent+"-01")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	require.Equal(t, statusOK, stop())

	export := <-received // the last spans are sent before the command ends
	require.Len(t, export.GetResourceSpans(), 1)
	about := map[string]string{}
	for _, attribute := range export.GetResourceSpans()[0].GetResource().GetAttributes() {
		about[attribute.GetKey()] = attribute.GetValue().GetStringValue()
	}
	require.Equal(t, "lockkeeper", about["service.name"])
	require.Equal(t, "staging", about["deployment.environment.name"])
	require.Len(t, export.GetResourceSpans()[0].GetScopeSpans(), 1)
	sent := export.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	require.Len(t, sent, 1, "probes and scrapes have none")
	require.Equal(t, trace, hex.EncodeToString(sent[0].GetTraceId()))
	require.Equal(t, parent, hex.EncodeToString(sent[0].GetParentSpanId()))
	require.Equal(t, "POST /v1/locks/{namespace}/{key}/acquire", sent[0].GetName())
}

func TestServeEndsWhileTheCollectorOfItsSpansIsAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
	service, stop := startServe(t)
	res, err := http.Get(service + "/openapi.json")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, statusOK, stop())
}

func TestServeEndsWhileTheCollectorOfItsSpansAcceptsAndNeverAnswers(t *testing.T) {
	accepted, end := make(chan struct{}, 1), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case accepted <- struct{}{}:
		default:
		}
		<-end
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(end) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600000")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	service, stop := startServe(t)
	get := func() {
		res, err := http.Get(service + "/openapi.json")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	get()
	<-accepted
	get() // no request waits for the collector
	require.Equal(t, statusOK, stop())
}

func TestServeRefusesProtocolOfSpansThatItDoesNotSpeak(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	stderr := &syncBuffer{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.Equal(t, statusUsage, run(ctx, []string{"serve", "--dev", "--listen", "127.0.0.1:0"}, strings.NewReader(""), io.Discard, stderr))
	require.Contains(t, stderr.String(), "by http/protobuf only")
}
