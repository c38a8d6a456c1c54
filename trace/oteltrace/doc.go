// SPDX-License-Identifier: Apache-2.0

// Package oteltrace exports the metrics of a Lockkeeper client through the OpenTelemetry metric
// API: waits, holds, losses, the time left until the deadline, and whether the client can be used. It
// also records spans of waits and holds.
//
//	metrics, err := oteltrace.New(nil) // with the global meter provider
//	if err != nil {
//		return err
//	}
//	defer metrics.Close()
//	client, err := recipes.Connect(ctx, servers, &recipes.Options{Trace: metrics.Trace()})
//	if err != nil {
//		return err
//	}
//	metrics.SetClient(client)
//
// docs/observability.md lists all metrics.
//
// SpanTrace records a span for each wait and each hold, below the caller's span:
//
//	client, err := recipes.Connect(ctx, servers, &recipes.Options{Trace: oteltrace.SpanTrace(metrics.Trace(), nil)})
//
// # Cardinality
//
// No attribute has more than nine values, except "path". By default it is omitted. Options.Path gives
// it values.
package oteltrace
