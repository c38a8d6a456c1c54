// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnhealthy is returned by Run when Options.Health failed or did not answer in time. The
// error has the reason. The term was resigned.
var ErrUnhealthy = errors.New("health check failed")

// errBlocked is the reason if a health check did not answer in time.
var errBlocked = errors.New("no answer in time")

// A health checks the process while its work runs.
type health struct {
	check             func(ctx context.Context) error // nil: no checks
	interval, timeout time.Duration
}

func newHealth(o *Options) health {
	return health{
		check:    o.Health,
		interval: cmp.Or(o.HealthInterval, DefaultHealthInterval),
		timeout:  cmp.Or(o.HealthTimeout, DefaultHealthTimeout),
	}
}

// A checkup is a sequence of health checks during one term.
type checkup struct {
	failure error         // why the term ends, nil if no check failed; valid once ended is closed
	blocked bool          // a check has not returned and goes on; valid once ended is closed
	ended   chan struct{} // closed after the last check
}

// begin checks immediately and then after each interval, until ctx is done. It calls fail when a
// check fails.
func (h health) begin(ctx context.Context, fail context.CancelCauseFunc) *checkup {
	c := &checkup{ended: make(chan struct{})}
	if h.check == nil {
		close(c.ended)
		return c
	}
	go func() {
		defer close(c.ended)
		for ctx.Err() == nil {
			if c.failure, c.blocked = h.once(ctx, fail); c.failure != nil || c.blocked {
				return
			}
			select {
			case <-time.After(h.interval):
			case <-ctx.Done():
			}
		}
	}()
	return c
}

// once carries out one check. It calls fail as soon as the check has failed, or has not answered
// within the timeout. Then it waits for the check once more, for the same time: blocked reports
// that the check has not even returned by then. A check that the end of the term interrupts has
// not failed.
func (h health) once(ctx context.Context, fail context.CancelCauseFunc) (failure error, blocked bool) {
	checkCtx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	results := start(func() error { return h.check(checkCtx) })
	var reason error
	select {
	case r := <-results:
		reason, results = r.failure(), nil
	case <-checkCtx.Done():
		reason = fmt.Errorf("%w: %v", errBlocked, h.timeout)
	}
	if reason != nil && ctx.Err() == nil {
		failure = fmt.Errorf("%w: %w", ErrUnhealthy, reason)
		fail(failure)
	}
	if results == nil {
		return failure, false
	}
	select {
	case <-results:
		return failure, false
	case <-time.After(h.timeout):
		return failure, true
	}
}

// wait returns why the term ended, nil if no check has failed. Its second error is that a check
// continues. The term's context is done.
func (c *checkup) wait() (failure, blocked error) {
	<-c.ended
	if c.blocked {
		blocked = fmt.Errorf("%w: the check has not returned after its context was done", ErrUnhealthy)
	}
	return c.failure, blocked
}

// failure returns why a check failed, nil if it did not: a panic is a failure, too.
func (r result) failure() error {
	switch {
	case r.panicked != nil:
		return fmt.Errorf("the check panicked: %v\n\n%s", r.panicked.Value, r.panicked.Stack)
	case r.exited:
		return errors.New("the check called runtime.Goexit")
	}
	return r.err
}
