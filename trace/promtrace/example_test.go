// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Serve the metrics of a client.
func Example() {
	ctx := context.Background()
	ensemble, err := zktest.Run(context.Background(), nil) // your ZooKeeper servers
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := ensemble.Close(); err != nil {
			log.Print(err)
		}
	}()
	servers, registry, mux := ensemble.Addrs(), prometheus.NewRegistry(), http.NewServeMux()

	metrics := promtrace.New(&promtrace.Options{Path: promtrace.FirstPaths(20)})
	registry.MustRegister(metrics)
	client, err := recipes.Connect(ctx, servers, &recipes.Options{Trace: metrics.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	metrics.SetClient(client)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(response.Body.String()) {
		if strings.HasPrefix(line, "lockkeeper_ready") || strings.HasPrefix(line, "lockkeeper_session") {
			fmt.Print(line)
		}
	}
	// Output:
	// lockkeeper_ready 1
	// lockkeeper_session_timeout_seconds 10
}
