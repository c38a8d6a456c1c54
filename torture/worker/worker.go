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

// Run contends with this library: the spec is JSON, as SpecVariable has it, in has the words of the harness, and the events
// go to out. It returns when it was told to stop and each of its clients was granted something once more, or when in has ended.
func Run(spec string, in io.Reader, out io.Writer) error { return RunWith(own{}, spec, in, out) }

// RunWith contends with another library.
func RunWith(library Library, spec string, in io.Reader, out io.Writer) error {
	var p Spec
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		return fmt.Errorf("worker: its spec: %w", err)
	}
	pl := &player{
		library: library, spec: p, voice: &voice{name: p.Name, time: clock.Scale{Began: p.Began}, out: out, attempt: p.First},
		resting: map[string]time.Time{}, kept: map[int]time.Time{}, stop: make(chan struct{}),
		waiting: map[string]map[*context.CancelCauseFunc]struct{}{},
	}
	ctx, abandon := context.WithCancel(context.Background())
	defer abandon()
	done := make(chan struct{})
	var watching, acting sync.WaitGroup
	watching.Go(func() { pl.voice.watchOwnClock(Gap(time.Duration(p.Timeout)), done) })
	for i := range max(p.Clients, 1) {
		c := &actor{
			player: pl, ctx: ctx, rand: rand.New(rand.NewPCG(p.Seed, uint64(i))),
			pen: &register.Client{Addr: p.Register},
		}
		acting.Go(c.act)
	}
	if p.Waiters+p.Holds > 0 && !p.Visit {
		asking, cease := context.WithCancelCause(ctx)
		defer cease(nil)
		acting.Go(func() {
			<-pl.stop
			cease(errStopped)
		})
		acting.Go(func() { (&load{pl, asking}).run(ctx) })
	}
	go func() { // nothing interrupts a read; it ends with the process
		pl.listen(in)
		pl.stopOnce()
		abandon() // there is nobody any more who heals anything
	}()
	acting.Wait()
	close(done)
	watching.Wait()
	return nil
}

// Gap returns the gap in a worker's schedule from which on it counts as not scheduled, for a session timeout.
func Gap(timeout time.Duration) time.Duration { return timeout / 32 }

// A player is what the clients of a contender share.
type player struct {
	library Library
	spec    Spec
	voice   *voice
	stop    chan struct{} // closed when nothing is to be begun any more
	once    sync.Once

	unwritten sync.Once // it was told that a register could not be written

	mu      sync.Mutex // guards what follows
	resting map[string]time.Time
	kept    map[int]time.Time // attempts, until when they hold at least
	waiting map[string]map[*context.CancelCauseFunc]struct{}
}

func (p *player) stopOnce() { p.once.Do(func() { close(p.stop) }) }

func (p *player) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// listen obeys words until there are no more.
func (p *player) listen(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 1 && words[0] == Stop:
			p.stopOnce()
		case len(words) == 3 && words[0] == Rest:
			if d, err := time.ParseDuration(words[2]); err == nil {
				p.mu.Lock()
				p.resting[words[1]] = time.Now().Add(d)
				p.mu.Unlock()
				if p.spec.Waiters > 0 { // there would be no end of them
					p.cancelAll(words[1])
				}
			}
		case len(words) == 2 && words[0] == Cancel:
			p.cancelAll(words[1])
		case len(words) == 3 && words[0] == Keep:
			p.keep(words[1], words[2])
		case len(words) == 2 && words[0] == Step:
			if d, err := time.ParseDuration(words[1]); err == nil {
				p.step(d)
			}
		}
	}
}

// step steps the wall clock, and looks at it: a fault that does nothing is amiss.
func (p *player) step(d time.Duration) {
	before := time.Now().Round(0)
	stepWall(d)
	if by := time.Now().Round(0).Sub(before); (by - d).Abs() > d.Abs()/2 {
		p.voice.say(history.Event{Kind: history.Note, Text: fmt.Sprintf("the wall clock was to be stepped by %v, and went on by %v", d, by)})
	}
}

// keep notes for how long an attempt is to hold at least. What makes no sense is ignored: the attempt may be over.
func (p *player) keep(attempt, lasts string) {
	n, err := strconv.Atoi(attempt)
	if d, bad := time.ParseDuration(lasts); err == nil && bad == nil {
		p.mu.Lock()
		p.kept[n] = time.Now().Add(d)
		p.mu.Unlock()
	}
}

// keepsUntil returns until when an attempt holds at least, and forgets it once it is over.
func (p *player) keepsUntil(attempt int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.kept[attempt]
	if !time.Now().Before(until) {
		delete(p.kept, attempt)
	}
	return until
}

// rests says whether nothing is to be begun at a path.
func (p *player) rests(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.resting[path])
}

// An actor is one client of a contender, with a session of its own. It asks for one thing after the other.
type actor struct {
	*player
	ctx    context.Context
	asking context.Context // of calls that acquire; nil: ctx
	rand   *rand.Rand
	pen    *register.Client
	client Client
}

func (a *actor) act() {
	defer func() {
		if a.client != nil {
			a.client.Close()
		}
		_ = a.pen.Close() // nothing is written any more
	}()
	if a.spec.Visit {
		a.visit()
		return
	}
	for !a.stopped() {
		if a.connected() {
			a.askFor(a.draw())
		}
	}
	a.farewell()
}

// visit acquires each path once.
func (a *actor) visit() {
	for visits := a.spec.Paths; len(visits) > 0 && !a.stopped(); {
		if a.connected() && a.attempt(visits[0], ask{how: "lock"}) {
			visits = visits[1:]
		}
	}
}

// farewell is what every client ends with, when everything is healed: it asks for as long as it takes, until it is granted
// something. A client that never recovers, or a lock that nobody gets any more, is found out by this: all other asking can
// come to nothing, and then asks anew.
func (a *actor) farewell() {
	for granted := false; !granted && a.ctx.Err() == nil; {
		granted = a.connected() && a.askFor(ask{how: "lock", hold: time.Millisecond})
	}
}

// askFor asks for any of the paths that do not rest.
func (a *actor) askFor(what ask) (granted bool) {
	path := a.spec.Paths[a.rand.IntN(len(a.spec.Paths))]
	if a.rests(path) {
		a.pause(10 * time.Millisecond)
		return false
	}
	return a.attempt(path, what)
}

// pause waits. It is short: whoever is told to stop waits for its end.
func (a *actor) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// between draws a duration.
func (a *actor) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.rand.Int64N(int64(most-least)))
}

// connected says whether there is a client, after it has tried to make one if need be.
func (a *actor) connected() bool {
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

// An ask is what is drawn to be asked for.
type ask struct {
	how   string // "lock", "try", "campaign"
	wait  time.Duration
	hold  time.Duration
	close bool // the client, instead of giving back
	idle  bool // hold until it is lost, without work
}

// LongestShortHold returns the bound of the holds that are not meant to be lost, for a session timeout.
func LongestShortHold(timeout time.Duration) time.Duration { return timeout / 40 }

// draw decides what to ask for.
func (a *actor) draw() ask {
	t := time.Duration(a.spec.Timeout)
	hold := a.between(2*time.Millisecond, LongestShortHold(t))
	if a.rand.IntN(32) == 0 { // long enough to be lost
		hold = a.between(t/2, 3*t)
	}
	drawn := ask{hold: hold, close: a.rand.IntN(50) == 0}
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

// attempt asks for a path, works while it has it, and gives it back. It says whether it was granted the path.
func (a *actor) attempt(path string, drawn ask) (granted bool) {
	by := history.Event{Attempt: a.voice.next(), Path: path}
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
	a.voice.say(asked)
	got, err := a.client.Acquire(ctx, drawn.how, path)
	if err != nil {
		failed := by
		failed.Kind, failed.Error = history.Failed, a.library.Why(err)
		if wasCancelled(ctx, err) {
			failed.Error = cancelled
		}
		a.voice.say(failed)
		if errors.As(err, new(*BrokenError)) {
			a.client.Close()
			a.client = nil
		}
		a.pause(a.between(5*time.Millisecond, 50*time.Millisecond))
		return false
	}
	token, told := a.granted(by, got)
	if drawn.idle {
		a.idle(got)
	} else {
		a.work(by, got, token, drawn.hold)
	}
	releasing := by
	releasing.Kind = history.Releasing
	a.voice.say(releasing)
	if drawn.close {
		a.client.Close()
		a.client = nil
	}
	released := by
	released.Kind = history.Released
	if err := got.GiveUp(a.ctx); err != nil {
		released.Error = a.library.Why(err)
	}
	<-told
	a.voice.say(released)
	return true
}

// granted tells of a grant, and has told when it ends; what is returned is closed then.
func (a *actor) granted(by history.Event, got Hold) (token fencing.Token, told <-chan struct{}) {
	at := a.voice.time.Now()
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
	a.voice.sayAt(at, granted)
	over := make(chan struct{})
	go func() { // attempt waits for it
		defer close(over)
		<-got.Done()
		at := a.voice.time.Now()
		by.Kind, by.Cause = history.Notified, got.Cause()
		a.voice.sayAt(at, by)
	}()
	return fencing.Token(granted.Token), over
}

// work writes to the registers every few milliseconds, and between the look at whether it still holds and the write there
// is the wait: a process that is stopped there writes late, as one that is stopped anywhere can.
func (a *actor) work(by history.Event, got Hold, token fencing.Token, d time.Duration) {
	for over := time.Now().Add(d); time.Now().Before(over) || time.Now().Before(a.keepsUntil(by.Attempt)); {
		select {
		case <-got.Done(): // only Done: the holds of some look at the clock by themselves when they are asked
			return
		default:
		}
		clock.Sleep(a.between(time.Millisecond, 5*time.Millisecond))
		if _, err := a.pen.Write(by.Path, a.spec.Name, by.Attempt, token); err != nil {
			// No fault touches the registers: from here on late writes are missed. Who is killed does not come to say it.
			a.unwritten.Do(func() {
				a.voice.say(history.Event{Kind: history.Note, Text: fmt.Sprintf("writing to the registers of %s: %v", by.Path, err)})
			})
			return
		}
	}
}
