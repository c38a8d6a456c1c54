// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
	"github.com/lockkeeper/lockkeeper/torture/register"
)

// Run contends with this library. The spec is JSON, as in SpecVariable; commands of the harness come from in, and events go to
// out. Run returns after Stop, when each of its clients was granted something once more, or when in has ended.
func Run(spec string, in io.Reader, out io.Writer) error { return RunWith(lockkeeper{}, spec, in, out) }

// RunWith contends with another library.
func RunWith(library Library, spec string, in io.Reader, out io.Writer) error {
	var p Spec
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		return fmt.Errorf("worker: decode spec: %w", err)
	}
	shared := &process{
		library: library, spec: p, reporter: &reporter{name: p.Name, time: clock.Scale{Began: p.Began}, out: out, attempt: p.First},
		resting: map[string]time.Time{}, extended: map[int]time.Time{}, stop: make(chan struct{}),
		waiting: map[string]map[*context.CancelCauseFunc]struct{}{},
	}
	ctx, abandon := context.WithCancel(context.Background())
	defer abandon()
	done := make(chan struct{})
	var watching, working sync.WaitGroup
	watching.Go(func() { shared.reporter.watchClock(Gap(time.Duration(p.Timeout)), done) })
	for i := range max(p.Clients, 1) {
		c := &workloadClient{
			process: shared, ctx: ctx, rand: rand.New(rand.NewPCG(p.Seed, uint64(i))),
			registers: &register.Client{Addr: p.Register},
		}
		working.Go(c.loop)
	}
	if p.Waiters+p.Holds > 0 && !p.Visit {
		asking, cease := context.WithCancelCause(ctx)
		defer cease(nil)
		working.Go(func() {
			<-shared.stop
			cease(errStopped)
		})
		working.Go(func() { (&load{shared, asking}).run(ctx) })
	}
	go func() { // nothing interrupts a read; it ends with the process
		shared.readCommands(in)
		shared.stopOnce()
		abandon() // without the harness, no fault is healed any more
	}()
	working.Wait()
	close(done)
	watching.Wait()
	return nil
}

// Gap returns the shortest gap in a worker's schedule that counts as not scheduled, for a session timeout.
func Gap(timeout time.Duration) time.Duration { return timeout / 32 }

// A process is the state that the clients of a worker process share.
type process struct {
	library  Library
	spec     Spec
	reporter *reporter
	stop     chan struct{} // closed when no further operation may begin
	once     sync.Once

	reportedWrite sync.Once // a failed write to a register was reported

	mu       sync.Mutex // guards what follows
	resting  map[string]time.Time
	extended map[int]time.Time // by attempt: hold at least until
	waiting  map[string]map[*context.CancelCauseFunc]struct{}
}

func (p *process) stopOnce() { p.once.Do(func() { close(p.stop) }) }

func (p *process) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// readCommands obeys the commands of the harness until its input ends.
func (p *process) readCommands(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 1 && fields[0] == Stop:
			p.stopOnce()
		case len(fields) == 3 && fields[0] == Rest:
			if d, err := time.ParseDuration(fields[2]); err == nil {
				p.mu.Lock()
				p.resting[fields[1]] = time.Now().Add(d)
				p.mu.Unlock()
				if p.spec.Waiters > 0 { // the queue would never drain
					p.cancelAll(fields[1])
				}
			}
		case len(fields) == 2 && fields[0] == Cancel:
			p.cancelAll(fields[1])
		case len(fields) == 3 && fields[0] == Keep:
			p.extendHold(fields[1], fields[2])
		case len(fields) == 2 && fields[0] == Step:
			if d, err := time.ParseDuration(fields[1]); err == nil {
				p.step(d)
			}
		}
	}
}

// step steps the wall clock and checks that it moved: a fault without effect is a problem.
func (p *process) step(d time.Duration) {
	before := time.Now().Round(0)
	stepWall(d)
	if by := time.Now().Round(0).Sub(before); (by - d).Abs() > d.Abs()/2 {
		p.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("step the wall clock by %v: it moved by %v", d, by)})
	}
}

// extendHold records for how long an attempt must hold at least. It ignores invalid arguments: the attempt may be over.
func (p *process) extendHold(attempt, lasts string) {
	n, err := strconv.Atoi(attempt)
	if d, bad := time.ParseDuration(lasts); err == nil && bad == nil {
		p.mu.Lock()
		p.extended[n] = time.Now().Add(d)
		p.mu.Unlock()
	}
}

// extendedUntil returns until when an attempt must hold at least, and forgets an instant that has passed.
func (p *process) extendedUntil(attempt int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.extended[attempt]
	if !time.Now().Before(until) {
		delete(p.extended, attempt)
	}
	return until
}

// isResting reports whether no operation may begin at a path.
func (p *process) isResting(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.resting[path])
}

// A workloadClient is one client of a contender, with its own session. It runs one operation after the other.
type workloadClient struct {
	*process
	ctx       context.Context
	asking    context.Context // of calls that acquire; nil: ctx
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
	if a.spec.Visit {
		a.probe()
		return
	}
	for !a.stopped() {
		if a.connected() {
			a.askFor(a.drawOperation())
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

// finalGrant is the last operation of every client, when all faults are healed: it retries until it is granted something. It
// detects a client that never recovers and a lock that no client can acquire any more: all other operations may fail, and the
// client then begins another.
func (a *workloadClient) finalGrant() {
	for granted := false; !granted && a.ctx.Err() == nil; {
		granted = a.connected() && a.askFor(operation{how: "lock", hold: time.Millisecond})
	}
}

// askFor runs an operation on a random path, unless that path is resting.
func (a *workloadClient) askFor(what operation) (granted bool) {
	path := a.spec.Paths[a.rand.IntN(len(a.spec.Paths))]
	if a.isResting(path) {
		a.pause(10 * time.Millisecond)
		return false
	}
	return a.attempt(path, what)
}

// pause waits. It must be short, because Stop waits for its end.
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

// connected reports whether there is a client, after it has tried to make one if necessary.
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

// An operation is one acquisition that the generator has drawn.
type operation struct {
	how   string // "lock", "try", "campaign"
	wait  time.Duration
	hold  time.Duration
	close bool // close the client instead of releasing
	idle  bool // hold until the loss, without work
}

// LongestShortHold returns the bound of the holds that usually end by a release, for a session timeout.
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
	if !a.library.Offers(drawn.how) {
		drawn.how = "lock"
	}
	if !a.library.Offers("lock") {
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
	if a.asking != nil {
		ctx = a.asking
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
		failed.Kind, failed.Error = history.Failed, a.library.Why(err)
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
	if err := got.GiveUp(a.ctx); err != nil {
		released.Error = a.library.Why(err)
	}
	<-notified
	a.reporter.report(released)
	return true
}

// granted reports a grant, and its end when it comes; the returned channel is closed once the end is reported.
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
	go func() { // attempt waits for it
		defer close(over)
		<-got.Done()
		at := a.reporter.time.Now()
		by.Kind, by.Cause = history.Notified, got.Cause()
		a.reporter.reportAt(at, by)
	}()
	return fencing.Token(granted.Token), over
}

// work writes to the registers every few milliseconds. It waits between the check of the hold and the write, so that a process
// that is stopped there sends a stale write, as a process that is stopped anywhere can.
func (a *workloadClient) work(by history.Event, got Hold, token fencing.Token, d time.Duration) {
	for over := time.Now().Add(d); time.Now().Before(over) || time.Now().Before(a.extendedUntil(by.Attempt)); {
		select {
		case <-got.Done(): // only Done: other methods of some libraries' holds read the clock themselves
			return
		default:
		}
		clock.Sleep(a.between(time.Millisecond, 5*time.Millisecond))
		if _, err := a.registers.Write(by.Path, a.spec.Name, by.Attempt, token); err != nil {
			// No fault touches the registers: from here on, stale writes are missed. A killed process cannot report this.
			a.reportedWrite.Do(func() {
				a.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("write to the registers of %s: %v", by.Path, err)})
			})
			return
		}
	}
}
