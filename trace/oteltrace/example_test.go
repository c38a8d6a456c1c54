// SPDX-License-Identifier: Apache-2.0

package oteltrace_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/oteltrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Record the metrics of a client with the global meter provider.
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
	reader := metric.NewManualReader() // your exporter
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))

	metrics, err := oteltrace.New(&oteltrace.Options{Path: oteltrace.FirstPaths(20)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := metrics.Close(); err != nil {
			log.Print(err)
		}
	}()
	client, err := recipes.Connect(ctx, ensemble.Addrs(), &recipes.Options{Trace: metrics.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	metrics.SetClient(client)

	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		log.Fatal(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if gauge, isGauge := m.Data.(metricdata.Gauge[float64]); isGauge && m.Name == "lockkeeper.ready" {
			fmt.Println(m.Name, gauge.DataPoints[0].Value)
		}
	}
	// Output: lockkeeper.ready 1
}
