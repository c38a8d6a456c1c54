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
// The metrics of events are updated on the client's trace goroutine and never block it. Those of
// the client's state are read when they are collected. docs/observability.md of the repository
// lists all metrics, and has alert rules and a dashboard for them.
//
// # Cardinality
//
// No label has more than nine values, except "path". By default it has none: all locks and
// elections are counted together. Options.Path gives them labels.
package promtrace
