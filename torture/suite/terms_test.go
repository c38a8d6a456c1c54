// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A termLog records the work of an election's candidates. They call Run, with work that the test controls. It fails the test
// if the work of two candidates overlaps.
type termLog struct {
	env   *env
	name  string
	began chan *workCall // each time that work begins

	mu       sync.Mutex // guards what follows
	working  []*workCall
	newest   fencing.Token
	overlaps []string
}

// termLog returns a termLog for the election at the path "election".
func (s *env) termLog() *termLog {
	r := &termLog{env: s, name: "election", began: make(chan *workCall, 1000)}
	s.t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, overlap := range r.overlaps {
			s.t.Error(overlap)
		}
	})
	return r
}

// A workCall is one call of the work. It ignores its context and continues until the test decides what it returns.
type workCall struct {
	env     *env
	who     *candidate
	ctx     context.Context
	term    *election.Term
	outcome chan func() error

	deleted atomic.Bool // the test deleted its node: another candidate may lead before the work is notified
}

// A candidate calls Run, with its own client behind its own proxy.
type candidate struct {
	termLog *termLog
	id      string
	opts    election.Options
	client  *recipes.Client
	proxy   *docker.Proxy
	beats   atomic.Int64 // heartbeats that were answered

	stop     func()        // ends Run's ctx, with the cause errStopped
	ended    chan struct{} // closed when Run has returned or panicked
	err      error         // valid after ended, like panicked
	panicked any
}

var errStopped = errors.New("stopped by the test")

// candidate returns a candidate that is queued.
func (r *termLog) candidate(opts election.Options) *candidate {
	r.env.t.Helper()
	c := &candidate{termLog: r, id: opts.ID, opts: opts, proxy: r.env.proxy(r.env.ensemble.Servers()[0])}
	c.client = r.env.connect(recipes.Options{Trace: &recipes.Trace{
		Heartbeat: func(_ time.Duration, err error) {
			if err == nil {
				c.beats.Add(1)
			}
		},
	}}, c.proxy.Addr())
	before := len(r.env.nodes(r.name))
	c.run()
	r.env.waiting(r.name, before+1)
	return c
}

// run begins a call of Run. The test ends only after the call has returned.
func (c *candidate) run() {
	s := c.termLog.env
	s.t.Helper()
	e := s.electionWith(c.client, c.termLog.name, c.opts)
	ctx, cancel := context.WithCancelCause(s.ctx)
	stop := func() { cancel(errStopped) }
	ended := make(chan struct{})
	c.stop, c.ended, c.err, c.panicked = stop, ended, nil, nil
	go func() {
		defer close(ended)
		defer func() { c.panicked = recover() }()
		c.err = e.Run(ctx, c.work)
	}()
	s.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// result waits until Run has returned, and returns its error.
func (c *candidate) result() error {
	c.termLog.env.t.Helper()
	select {
	case <-c.ended:
		return c.err
	case <-c.termLog.env.ctx.Done():
		require.FailNow(c.termLog.env.t, "Run has not returned")
		return nil
	}
}

// over reports whether Run has returned.
func (c *candidate) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// beat waits until n more heartbeats of the candidate were answered.
func (c *candidate) beat(n int64) {
	c.termLog.env.t.Helper()
	n += c.beats.Load()
	c.termLog.env.eventually("heartbeats", func() bool { return c.beats.Load() >= n })
}

// work is the function that Run calls.
func (c *candidate) work(ctx context.Context, term *election.Term) error {
	w := &workCall{env: c.termLog.env, who: c, ctx: ctx, term: term, outcome: make(chan func() error, 1)}
	c.termLog.begin(w)
	defer c.termLog.end(w)
	c.termLog.began <- w
	select {
	case outcome := <-w.outcome:
		return outcome()
	case <-c.termLog.env.ctx.Done():
		return c.termLog.env.ctx.Err()
	}
}

// begin compares a call that begins with those that have not ended, and records overlaps.
func (r *termLog) begin(w *workCall) {
	r.mu.Lock()
	others := slices.Clone(r.working)
	r.working = append(r.working, w)
	older := w.term.Token() <= r.newest
	r.newest = max(r.newest, w.term.Token())
	r.mu.Unlock()

	var overlaps []string
	if older {
		overlaps = append(overlaps, fmt.Sprintf("%s begins with token %d, which is not the newest", w.who.id, w.term.Token()))
	}
	for _, other := range others {
		overlap := fmt.Sprintf("%s begins with token %d, while %s works with token %d", w.who.id, w.term.Token(), other.who.id, other.term.Token())
		switch {
		case other.who == w.who:
			overlaps = append(overlaps, overlap)
		case other.deleted.Load():
		case other.term.Err() == nil || other.ctx.Err() == nil:
			overlaps = append(overlaps, overlap+" and was not notified")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overlaps = append(r.overlaps, overlaps...)
}

// end removes a call that has ended.
func (r *termLog) end(w *workCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = slices.DeleteFunc(r.working, func(other *workCall) bool { return other == w })
}

// next waits for the next workCall to begin.
func (r *termLog) next() *workCall {
	r.env.t.Helper()
	select {
	case w := <-r.began:
		return w
	case <-r.env.ctx.Done():
		require.FailNow(r.env.t, "no candidate leads")
		return nil
	}
}

// idle reports whether next has returned all calls that have begun.
func (r *termLog) idle() bool { return len(r.began) == 0 }

// returns makes the work return err.
func (w *workCall) returns(err error) { w.outcome <- func() error { return err } }

// panics makes the work panic.
func (w *workCall) panics(value any) { w.outcome <- func() error { panic(value) } }

// exits ends the goroutine of the work.
func (w *workCall) exits() {
	w.outcome <- func() error {
		runtime.Goexit()
		return nil
	}
}

// notified waits until the call's context is done, and returns the cause.
func (w *workCall) notified() error {
	w.env.t.Helper()
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.env.ctx.Done():
		require.FailNow(w.env.t, "the work was not notified")
		return nil
	}
}

// deleteNode deletes the node of the call's term, as an operator would.
func (w *workCall) deleteNode() {
	w.env.t.Helper()
	w.deleted.Store(true)
	require.NoError(w.env.t, w.env.zk.Delete(w.term.Path(), -1))
}
