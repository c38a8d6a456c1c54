// SPDX-License-Identifier: Apache-2.0

// Package oteltrace exports the metrics of a Lockkeeper client through the OpenTelemetry metric
// API: waits, holds, losses, the time left until the deadline, and whether the client can be used.
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
// The metrics of events are recorded on the client's trace goroutine, which they do not block; the
// client's state is read when a reader collects. docs/observability.md lists all metrics.
//
// The package records no spans: an event has no context, and so a span would have no parent. A
// caller that wants one starts it around its call of Lock.
//
// # Cardinality
//
// No attribute has more than nine values, except "path". By default it is omitted: all locks and
// elections are counted together. Options.Path gives them values.
package oteltrace
