// SPDX-License-Identifier: Apache-2.0

// Package promtrace exports the metrics of a Lockkeeper client to Prometheus: waits, holds,
// losses, the time left until the deadline, and whether the client can be used.
//
//	metrics := promtrace.New(nil)
//	prometheus.MustRegister(metrics)
//	client, err := recipes.Connect(ctx, servers, &recipes.Options{Trace: metrics.Trace()})
//	if err != nil {
//		return err
//	}
//	metrics.SetClient(client)
//	http.Handle("/metrics", promhttp.Handler())
//
// docs/observability.md lists all metrics.
//
// # Cardinality
//
// No label has more than nine values, except "path". By default it is empty. Options.Path gives it
// values.
package promtrace
