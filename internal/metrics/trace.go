// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
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
		SessionEnded: func(_ int64, cause error) { r.Add(SessionsEnded, Cause(cause)) },
		Attached:     func(int64, string) { r.Add(Reconnects) },
		Outage:       func(time.Duration, error) { r.Add(Outages) },
		Heartbeat: func(roundTrip time.Duration, err error) {
			if err != nil {
				r.Add(HeartbeatFailures)
				return
			}
			r.Observe(Heartbeat, roundTrip.Seconds())
		},
		Proved: func(left, timeout time.Duration) { r.Observe(DeadlineLeft, left.Seconds()/timeout.Seconds()) },
		Joined: func(path, _ string, contenders int) {
			if contenders > 0 {
				r.Observe(QueueLength, float64(contenders), label(path))
			}
		},
		Granted: func(path, _ string, _ fencing.Token, waited time.Duration) {
			r.Observe(Wait, waited.Seconds(), label(path))
		},
		HandedOver: func(path, _ string) { r.Add(Handoffs, label(path)) },
		Failed: func(path string, _ time.Duration, err error) {
			r.Add(WaitFailures, label(path), Cause(err))
		},
		Ended: func(path, _ string, held time.Duration, _ error) {
			r.Observe(Hold, held.Seconds(), label(path))
		},
		Unreleased: func(path string, _ recipes.FormerHolder, _ time.Duration) { r.Add(Unreleased, label(path)) },
		Lost:       func(path, _ string, cause error) { r.Add(Losses, label(path), Cause(cause)) },
		Rejoined:   func(path string, cause error) { r.Add(Rejoins, label(path), Cause(cause)) },
		NotDeleted: func(string, error) { r.Add(DeletionFailures) },
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
	case errors.Is(err, recipes.ErrSteppedBack):
		return "yielded"
	}
	return "other"
}
