// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Recorder records the values of events. Its methods must not block. labels are the values of the
// metric's labels, in their order.
type Recorder interface {
	// Add adds one to a Counter.
	Add(m *Metric, labels ...string)
	// Observe records one value of a Histogram.
	Observe(m *Metric, value float64, labels ...string)
}

// Trace returns a trace that records each event with r. label returns the value of the label "path"
// for the path of a queue.
func Trace(r Recorder, label func(path string) string) *recipes.Trace {
	return &recipes.Trace{
		SessionEnded: func(e recipes.SessionEvent) { r.Add(SessionsEnded, Cause(e.Err)) },
		Attached:     func(recipes.SessionEvent) { r.Add(Reconnects) },
		Outage:       func(recipes.SessionEvent) { r.Add(Outages) },
		Heartbeat: func(e recipes.SessionEvent) {
			if e.Err != nil {
				r.Add(HeartbeatFailures)
				return
			}
			r.Observe(Heartbeat, e.RoundTrip.Seconds())
		},
		Proved: func(e recipes.SessionEvent) { r.Observe(DeadlineLeft, e.Left.Seconds()/e.Timeout.Seconds()) },
		Joined: func(e recipes.QueueEvent) {
			if e.Contenders > 0 {
				r.Observe(QueueLength, float64(e.Contenders), label(e.Path))
			}
		},
		Granted: func(e recipes.QueueEvent) {
			r.Observe(Wait, e.Waited.Seconds(), label(e.Path))
		},
		HandedOver: func(e recipes.QueueEvent) { r.Add(Handoffs, label(e.Path)) },
		Failed: func(e recipes.QueueEvent) {
			r.Add(WaitFailures, label(e.Path), Cause(e.Err))
		},
		Ended: func(e recipes.QueueEvent) {
			r.Observe(Hold, e.Held.Seconds(), label(e.Path))
		},
		Unreleased: func(e recipes.QueueEvent) { r.Add(Unreleased, label(e.Path)) },
		Lost:       func(e recipes.QueueEvent) { r.Add(Losses, label(e.Path), Cause(e.Err)) },
		Rejoined:   func(e recipes.QueueEvent) { r.Add(Rejoins, label(e.Path), Cause(e.Err)) },
		NotDeleted: func(recipes.QueueEvent) { r.Add(DeletionFailures) },
	}
}

// Cause returns the value of the label "cause" for an error: one of "busy", "cancelled", "closed",
// "deadline", "deleted", "expired", "yielded", "timeout" and "other".
func Cause(err error) string {
	var busy *recipes.BusyError
	switch {
	case errors.Is(err, recipes.ErrClosed):
		return "closed"
	case errors.Is(err, recipes.ErrDeleted):
		return "deleted"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &busy):
		return "busy"
	case errors.Is(err, recipes.ErrDeadline):
		return "deadline"
	case errors.Is(err, recipes.ErrSessionExpired):
		return "expired"
	case errors.Is(err, recipes.ErrYielded):
		return "yielded"
	}
	return "other"
}
