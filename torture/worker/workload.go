// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
	"github.com/lockkeeper/lockkeeper/torture/register"
)

// A workloadClient runs the workload on one client of a contender, one operation after the other.
type workloadClient struct {
	*process
	ctx       context.Context // of releases, and of acquisitions unless acquiring is set
	acquiring context.Context // of acquisitions
	rand      *rand.Rand
	registers *register.Client
	client    Client
}

func (a *workloadClient) loop() {
	defer func() {
		if a.client != nil {
			a.client.Close()
		}
		_ = a.registers.Close() // no write follows
	}()
	if a.spec.Probe {
		a.probe()
		return
	}
	for !a.stopped() {
		if a.connected() {
			a.run(a.drawOperation())
		}
	}
	a.finalGrant()
}

// probe acquires each path once.
func (a *workloadClient) probe() {
	for paths := a.spec.Paths; len(paths) > 0 && !a.stopped(); {
		if a.connected() && a.attempt(paths[0], operation{how: "lock"}) {
			paths = paths[1:]
		}
	}
}

// finalGrant is the last operation of every client, when all faults are healed: it retries until it is granted a lock. So the
// run detects a client that never recovers, and a lock that no client can acquire any more. Any other operation may fail; the
// client then begins the next one.
func (a *workloadClient) finalGrant() {
	for granted := false; !granted && a.ctx.Err() == nil; {
		granted = a.connected() && a.run(operation{how: "lock", hold: time.Millisecond})
	}
}

// run runs an operation on a random path. It does nothing if that path is avoided.
func (a *workloadClient) run(drawn operation) (granted bool) {
	path := a.spec.Paths[a.rand.IntN(len(a.spec.Paths))]
	if a.isAvoided(path) {
		a.pause(10 * time.Millisecond)
		return false
	}
	return a.attempt(path, drawn)
}

// pause waits. It does not end early at Stop, so d must be short.
func (a *workloadClient) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// between draws a duration.
func (a *workloadClient) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.rand.Int64N(int64(most-least)))
}

// connected reports whether there is a client. It connects one if necessary, which may fail.
func (a *workloadClient) connected() bool {
	if a.client != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(a.ctx, time.Duration(a.spec.Timeout))
	defer cancel()
	client, err := a.library.Connect(ctx, &a.spec)
	if err != nil {
		a.pause(a.between(10*time.Millisecond, 100*time.Millisecond))
		return false
	}
	a.client = client
	return true
}

// An operation describes one acquisition, as the generator has drawn it.
type operation struct {
	how   string        // "lock", "try", "campaign"
	wait  time.Duration // timeout of the acquisition, 0 for none
	hold  time.Duration // time of work under the hold
	close bool          // close the client before the release
	idle  bool          // hold until the loss or Stop, without work
}

// LongestShortHold returns the upper bound of short holds, for a session timeout. Most holds are short; the others are long
// enough that a fault can end them.
func LongestShortHold(timeout time.Duration) time.Duration { return timeout / 40 }

// drawOperation generates an operation.
func (a *workloadClient) drawOperation() operation {
	t := time.Duration(a.spec.Timeout)
	hold := a.between(2*time.Millisecond, LongestShortHold(t))
	if a.rand.IntN(32) == 0 { // long enough to be lost
		hold = a.between(t/2, 3*t)
	}
	drawn := operation{hold: hold, close: a.rand.IntN(50) == 0}
	switch n := a.rand.IntN(100); {
	case n < 40:
		drawn.how = "lock"
	case n < 60:
		drawn.how, drawn.wait = "lock", a.between(time.Millisecond, t/2)
	case n < 72:
		drawn.how = "try"
	case n < 90:
		drawn.how = "campaign"
	default:
		drawn.how, drawn.wait = "campaign", a.between(time.Millisecond, t/2)
	}
	if !a.library.Supports(drawn.how) {
		drawn.how = "lock"
	}
	if !a.library.Supports("lock") {
		drawn.wait = 0
	}
	return drawn
}

// attempt acquires a path, works while it holds it, and releases it. It reports whether it was granted the path.
func (a *workloadClient) attempt(path string, drawn operation) (granted bool) {
	by := history.Event{Attempt: a.reporter.next(), Path: path}
	asked := by
	asked.Kind, asked.Text = history.Asked, drawn.how
	ctx := a.ctx
	if a.acquiring != nil {
		ctx = a.acquiring
	}
	ctx, leave := a.cancellable(ctx, path)
	defer leave()
	if drawn.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drawn.wait)
		defer cancel()
		asked.Text += ", for " + drawn.wait.String()
	}
	a.reporter.report(asked)
	got, err := a.client.Acquire(ctx, drawn.how, path)
	if err != nil {
		failed := by
		failed.Kind, failed.Error = history.Failed, a.library.Reason(err)
		if wasCancelled(ctx, err) {
			failed.Error = cancelled
		}
		a.reporter.report(failed)
		if errors.As(err, new(*BrokenError)) {
			a.client.Close()
			a.client = nil
		}
		a.pause(a.between(5*time.Millisecond, 50*time.Millisecond))
		return false
	}
	token, notified := a.granted(by, got)
	if drawn.idle {
		a.idle(got)
	} else {
		a.work(by, got, token, drawn.hold)
	}
	releasing := by
	releasing.Kind = history.Releasing
	a.reporter.report(releasing)
	if drawn.close {
		a.client.Close()
		a.client = nil
	}
	released := by
	released.Kind = history.Released
	if err := got.Release(a.ctx); err != nil {
		released.Error = a.library.Reason(err)
	}
	<-notified
	a.reporter.report(released)
	return true
}

// granted reports a grant and, from a goroutine, its end. The returned channel is closed when the end was reported.
func (a *workloadClient) granted(by history.Event, got Hold) (token fencing.Token, notified <-chan struct{}) {
	at := a.reporter.time.Now()
	granted := got.Grant()
	granted.Kind, granted.Attempt, granted.Path = history.Granted, by.Attempt, by.Path
	if stated, ok := got.(interface{ Deadline() time.Time }); ok {
		if deadline := stated.Deadline(); !deadline.IsZero() {
			granted.Deadline = at + history.Instant(time.Until(deadline))
		}
	}
	if a.spec.Tokenless {
		granted.Token = history.ID(at)
	}
	a.reporter.reportAt(at, granted)
	over := make(chan struct{})
	go func() { // attempt waits for its end
		defer close(over)
		<-got.Done()
		at := a.reporter.time.Now()
		by.Kind, by.Cause = history.Notified, got.Cause()
		a.reporter.reportAt(at, by)
	}()
	return fencing.Token(granted.Token), over
}

// work writes to the registers every few milliseconds. It waits between the check of the hold and the write: a process that is
// stopped there sends a stale write, as a process that is stopped at another instruction can.
func (a *workloadClient) work(by history.Event, got Hold, token fencing.Token, d time.Duration) {
	for over := time.Now().Add(d); time.Now().Before(over) || time.Now().Before(a.extendedUntil(by.Attempt)); {
		select {
		case <-got.Done(): // only Done: other methods of some libraries' holds read the clock themselves
			return
		default:
		}
		clock.Sleep(a.between(time.Millisecond, 5*time.Millisecond))
		if _, err := a.registers.Write(by.Path, a.spec.Name, by.Attempt, token); err != nil {
			// No fault affects the registers, so this is a problem: from here on, stale writes are missed.
			a.reportedWrite.Do(func() {
				a.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("write to the registers of %s: %v", by.Path, err)})
			})
			return
		}
	}
}
