// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// several is the operation that acquires several paths together.
const several = "all"

// A workloadClient runs the workload on one client of a contender, one operation after the other.
type workloadClient struct {
	*process
	ctx       context.Context // of releases, and of acquisitions unless acquiring is set
	acquiring context.Context // of acquisitions
	rand      *rand.Rand
	registers *register.Client
	client    Client
	session   history.ID // of the client, as it was last reported
}

func (a *workloadClient) loop() {
	defer func() {
		if a.client != nil {
			a.keep(a.outstanding, a.close)
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
		if a.connected() && a.attempt(operation{how: "lock"}, paths[0]) {
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

// run runs an operation on a random path, with one of its recipes. It does nothing if a path is avoided.
func (a *workloadClient) run(drawn operation) (granted bool) {
	paths := []string{a.drawPath()}
	if paths[0] == a.spec.Delayed {
		drawn.leave = drawn.close || a.rand.IntN(8) == 0
	}
	if drawn.how = a.drawRecipe(drawn.how, paths[0]); drawn.how == several {
		paths = a.drawSeveral(paths[0])
	}
	if slices.ContainsFunc(paths, a.isAvoided) {
		a.pause(10 * time.Millisecond)
		return false
	}
	return a.attempt(drawn, paths...)
}

// pause waits. It does not end early at Stop, so d must be shorter than T.
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
	if c, ok := client.(fencer); ok {
		c.fenceWith(a.spec.Delayed, a.reporter.report)
	}
	a.client = client
	return true
}

// reportSession reports the session of the client, if it has another one than before.
func (a *workloadClient) reportSession() {
	if with, has := a.client.(interface{ Session() history.ID }); has {
		if session := with.Session(); session != 0 && session != a.session {
			a.session = session
			a.reporter.report(history.Event{Kind: history.Opened, Session: session})
		}
	}
}

// outstanding returns how many nodes of the client may exist, 0 if its library does not know.
func (a *workloadClient) outstanding() int {
	if with, has := a.client.(interface{ Outstanding() int }); has {
		return with.Outstanding()
	}
	return 0
}

// close reports the session of the client, and closes the client.
func (a *workloadClient) close() {
	a.reportSession()
	if a.session != 0 {
		a.reporter.report(history.Event{Kind: history.Closing, Session: a.session})
	}
	a.client.Close()
	a.client = nil
}

// An operation describes one acquisition, as the generator has drawn it.
type operation struct {
	how   string        // "lock", "try", "campaign", or a recipe's: see recipe.go
	wait  time.Duration // timeout of the acquisition, 0 for none
	hold  time.Duration // time of work under the hold
	close bool          // close the client before the release
	leave bool          // close the client in place of the release
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

// attempt acquires a path, or several together, works while it holds them, and releases them. It reports whether it was granted
// them. The history has an attempt for each path.
func (a *workloadClient) attempt(drawn operation, paths ...string) (granted bool) {
	parts := make([]part, len(paths))
	for i, path := range paths {
		parts[i].by = history.Event{Attempt: a.reporter.next(), Path: path}
	}
	a.reportSession()
	ctx, end := a.asking(drawn, paths)
	defer end()
	text := drawn.how
	if drawn.wait > 0 {
		text += ", for " + drawn.wait.String()
	}
	a.reportAll(parts, func(e *history.Event) {
		e.Kind, e.Text = history.Asked, text
		if len(parts) > 1 {
			e.Together = parts[0].by.Attempt
		}
	})
	holds, err := a.acquire(ctx, drawn.how, paths)
	if err != nil {
		a.failed(ctx, parts, err)
		return false
	}
	for i := range parts {
		parts[i].hold = holds[i]
		a.granted(&parts[i])
	}
	published := a.lead(parts[0], drawn)
	a.use(parts, drawn)
	if drawn.leave {
		a.leave(parts[0])
	} else {
		a.release(parts, drawn)
	}
	published()
	return true
}

// asking returns the context of an acquisition, which the nemesis can cancel at each of the paths.
func (a *workloadClient) asking(drawn operation, paths []string) (context.Context, context.CancelFunc) {
	ctx := a.ctx
	if a.acquiring != nil {
		ctx = a.acquiring
	}
	var ends []context.CancelFunc
	for _, path := range paths {
		var end context.CancelFunc
		ctx, end = a.cancellable(ctx, path)
		ends = append(ends, end)
	}
	if drawn.wait > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, drawn.wait)
		ends = append(ends, end)
	}
	return ctx, func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
}

// failed reports an acquisition that has failed, and waits before the next one.
func (a *workloadClient) failed(ctx context.Context, parts []part, err error) {
	why := a.library.Reason(err)
	if wasCancelled(ctx, err) {
		why = attempt.Cancelled
	}
	a.reportAll(parts, func(e *history.Event) { e.Kind, e.Error = history.Failed, why })
	if errors.As(err, new(*BrokenError)) {
		a.close()
	}
	a.pause(a.between(5*time.Millisecond, 50*time.Millisecond))
}

// release gives the paths back, or closes the client that holds them.
func (a *workloadClient) release(parts []part, drawn operation) {
	a.reportAll(parts, func(e *history.Event) { e.Kind = history.Releasing })
	if drawn.close {
		a.close()
	}
	why := ""
	if err := parts[0].hold.Release(a.ctx); err != nil {
		why = a.library.Reason(err)
	}
	for _, p := range parts {
		<-p.notified
	}
	a.reportAll(parts, func(e *history.Event) { e.Kind, e.Error = history.Released, why })
}

// A part is what an attempt has of one path.
type part struct {
	by       history.Event // has the fields of the attempt's events
	hold     Hold
	token    fencing.Token
	notified <-chan struct{} // closed when the end of the hold was reported
}

// register returns the path of the part's registers. Each number of slots has its own: their tokens order the holders of one number.
func (p *part) register() string {
	if p.by.Number != "" {
		return p.by.Path + "/" + p.by.Number
	}
	return p.by.Path
}

// reportAll reports an event of each part, which complete completes.
func (a *workloadClient) reportAll(parts []part, complete func(*history.Event)) {
	for _, p := range parts {
		e := p.by
		complete(&e)
		a.reporter.report(e)
	}
}

// granted reports the grant of a part and, from a goroutine, its end. It sets the part's token, number and notified.
func (a *workloadClient) granted(p *part) {
	at := a.reporter.time.Now()
	by, got := p.by, p.hold
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
	p.token, p.notified, p.by.Number = fencing.Token(granted.Token), over, granted.Number
}

// Causes of a call's cancelled context.
var (
	errBurst   = errors.New("all contenders of the path are cancelled")
	errStopped = errors.New("the contender stops")
)

// wasCancelled reports whether an attempt failed because its context was cancelled by this process.
func wasCancelled(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return errors.Is(err, context.Canceled) && (errors.Is(cause, errBurst) || errors.Is(cause, errStopped))
}
