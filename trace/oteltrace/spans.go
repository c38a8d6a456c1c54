// SPDX-License-Identifier: Apache-2.0

package oteltrace

import (
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// SpanOptions are the options of SpanTrace. The zero value of a field means its default.
type SpanOptions struct {
	// TracerProvider creates the tracer. The default is the global one.
	TracerProvider trace.TracerProvider

	// Attributes are added to all spans.
	Attributes []attribute.KeyValue

	_ struct{}
}

// SpanTrace returns a trace that records a span for each wait and each hold, and calls the functions of next, which may be
// nil: pass Metrics.Trace for metrics as well. opts may be nil.
//
//   - lockkeeper.wait lasts from the call for a lock or a term until it is granted, or until the call returns an error.
//   - lockkeeper.hold lasts from the grant until the lock is released or lost. It is recorded when it ends, so that a process
//     that is killed leaves none.
//
// Both are children of the span in the context of that call: of Lock, Campaign, or Election.Run. A span of work under the lock
// is their sibling. The attributes are lockkeeper.path, lockkeeper.node and lockkeeper.token, and lockkeeper.cause of a call that
// failed or of a loss: see docs/observability.md. A loss has the status Error, as has a failed call, unless another client held the
// lock or the caller cancelled it.
//
// Spans are recorded on the client's trace goroutine, with the times of the events. An exporter that blocks delays only further
// events; spans of events that were dropped are missing: see recipes.Trace.
func SpanTrace(next *recipes.Trace, opts *SpanOptions) *recipes.Trace {
	if opts == nil {
		opts = &SpanOptions{}
	}
	provider := opts.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	s := spans{tracer: provider.Tracer(scope), attributes: opts.Attributes}
	var t recipes.Trace
	if next != nil {
		t = *next
	}
	t.Granted = both(s.granted, t.Granted)
	t.Failed = both(s.failed, t.Failed)
	t.Ended = both(s.ended, t.Ended)
	return &t
}

// both returns a function that calls f and then next, which may be nil.
func both(f, next func(recipes.QueueEvent)) func(recipes.QueueEvent) {
	if next == nil {
		return f
	}
	return func(e recipes.QueueEvent) {
		f(e)
		next(e)
	}
}

// spans records spans of events. Each span is recorded as a whole when it ends: no event that was dropped leaves a span open.
type spans struct {
	tracer     trace.Tracer
	attributes []attribute.KeyValue
}

func (s spans) granted(e recipes.QueueEvent) { s.record("lockkeeper.wait", e, e.Waited, nil) }

func (s spans) failed(e recipes.QueueEvent) { s.record("lockkeeper.wait", e, e.Waited, e.Err) }

func (s spans) ended(e recipes.QueueEvent) {
	err := e.Err
	if errors.Is(err, recipes.ErrReleased) {
		err = nil
	}
	s.record("lockkeeper.hold", e, e.Held, err)
}

// record records a span that lasted until the event.
func (s spans) record(name string, e recipes.QueueEvent, lasted time.Duration, err error) {
	_, span := s.tracer.Start(e.Context, name, trace.WithTimestamp(e.Time.Add(-lasted)), trace.WithAttributes(s.attributes...))
	defer span.End(trace.WithTimestamp(e.Time))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("lockkeeper.path", e.Path))
	if e.Node != "" {
		span.SetAttributes(attribute.String("lockkeeper.node", e.Node), attribute.Int64("lockkeeper.token", int64(e.Token)))
	}
	if err == nil {
		return
	}
	cause := metrics.Cause(err)
	span.SetAttributes(attribute.String("lockkeeper.cause", cause))
	if cause != "busy" && cause != "cancelled" {
		span.SetStatus(codes.Error, err.Error())
	}
}
