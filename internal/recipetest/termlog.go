// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A TermLog records the work of an election's candidates. They call Run, with work that the test controls. It fails the test
// if the work of two candidates overlaps.
type TermLog struct {
	env   *Env
	name  string
	began chan *WorkCall // each time that work begins

	mu       sync.Mutex // guards what follows
	working  []*WorkCall
	newest   fencing.Token
	overlaps []string
}

// TermLog returns a TermLog for the election at the path "election".
func (s *Env) TermLog() *TermLog {
	r := &TermLog{env: s, name: "election", began: make(chan *WorkCall, 1000)}
	s.T.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, overlap := range r.overlaps {
			s.T.Error(overlap)
		}
	})
	return r
}

// A WorkCall is one call of the work. It ignores its context and continues until the test decides what it returns.
type WorkCall struct {
	Env     *Env
	Who     *Candidate
	Ctx     context.Context
	Term    *election.Term
	outcome chan func() error

	deleted atomic.Bool // the test deleted its node: another candidate may lead before the work is notified
}

// A Candidate calls Run, with its own client.
type Candidate struct {
	termLog *TermLog
	ID      string
	opts    election.Options
	Client  *recipes.Client
	beats   atomic.Int64 // heartbeats that were answered

	Stop     func()        // ends Run's ctx, with the cause errStopped
	ended    chan struct{} // closed when Run has returned or panicked
	err      error         // valid after ended, like panicked
	Panicked any
}

var ErrStopped = errors.New("stopped by the test")

// Candidate returns a Candidate that is queued.
func (r *TermLog) Candidate(opts election.Options, servers ...string) *Candidate {
	r.env.T.Helper()
	c := &Candidate{termLog: r, ID: opts.Owner, opts: opts}
	c.Client = r.env.Connect(recipes.Options{Trace: &recipes.Trace{
		Heartbeat: func(e recipes.SessionEvent) {
			if e.Err == nil {
				c.beats.Add(1)
			}
		},
	}}, servers...)
	before := len(r.env.Nodes(r.name))
	c.Run()
	r.env.Waiting(r.name, before+1)
	return c
}

// Run begins a call of Run. The test ends only after the call has returned.
func (c *Candidate) Run() {
	s := c.termLog.env
	s.T.Helper()
	e := s.ElectionWith(c.Client, c.termLog.name, c.opts)
	ctx, cancel := context.WithCancelCause(s.Ctx)
	stop := func() { cancel(ErrStopped) }
	ended := make(chan struct{})
	c.Stop, c.ended, c.err, c.Panicked = stop, ended, nil, nil
	go func() {
		defer close(ended)
		defer func() { c.Panicked = recover() }()
		c.err = e.Run(ctx, c.work)
	}()
	s.T.Cleanup(func() {
		stop()
		<-ended
	})
}

// Result waits until Run has returned, and returns its error.
func (c *Candidate) Result() error {
	c.termLog.env.T.Helper()
	select {
	case <-c.ended:
		return c.err
	case <-c.termLog.env.Ctx.Done():
		require.FailNow(c.termLog.env.T, "Run has not returned")
		return nil
	}
}

// Over reports whether Run has returned.
func (c *Candidate) Over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Beat waits until n more heartbeats of the candidate were answered.
func (c *Candidate) Beat(n int64) {
	c.termLog.env.T.Helper()
	n += c.beats.Load()
	c.termLog.env.Eventually("heartbeats", func() bool { return c.beats.Load() >= n })
}

// work is the function that Run calls.
func (c *Candidate) work(ctx context.Context, term *election.Term) error {
	w := &WorkCall{Env: c.termLog.env, Who: c, Ctx: ctx, Term: term, outcome: make(chan func() error, 1)}
	c.termLog.begin(w)
	defer c.termLog.end(w)
	c.termLog.began <- w
	select {
	case outcome := <-w.outcome:
		return outcome()
	case <-c.termLog.env.Ctx.Done():
		return c.termLog.env.Ctx.Err()
	}
}

// begin compares a call that begins with those that have not ended, and records overlaps.
func (r *TermLog) begin(w *WorkCall) {
	r.mu.Lock()
	others := slices.Clone(r.working)
	r.working = append(r.working, w)
	older := w.Term.Token() <= r.newest
	r.newest = max(r.newest, w.Term.Token())
	r.mu.Unlock()

	var overlaps []string
	if older {
		overlaps = append(overlaps, fmt.Sprintf("%s begins with token %d, which is not the newest", w.Who.ID, w.Term.Token()))
	}
	for _, other := range others {
		overlap := fmt.Sprintf("%s begins with token %d, while %s works with token %d", w.Who.ID, w.Term.Token(), other.Who.ID, other.Term.Token())
		switch {
		case other.Who == w.Who:
			overlaps = append(overlaps, overlap)
		case other.deleted.Load():
		case other.Term.Err() == nil || other.Ctx.Err() == nil:
			overlaps = append(overlaps, overlap+" and was not notified")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overlaps = append(r.overlaps, overlaps...)
}

// end removes a call that has ended.
func (r *TermLog) end(w *WorkCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = slices.DeleteFunc(r.working, func(other *WorkCall) bool { return other == w })
}

// Next waits for the next workCall to begin.
func (r *TermLog) Next() *WorkCall {
	r.env.T.Helper()
	select {
	case w := <-r.began:
		return w
	case <-r.env.Ctx.Done():
		require.FailNow(r.env.T, "no candidate leads")
		return nil
	}
}

// Idle reports whether next has returned all calls that have begun.
func (r *TermLog) Idle() bool { return len(r.began) == 0 }

// Returns makes the work return err.
func (w *WorkCall) Returns(err error) { w.outcome <- func() error { return err } }

// Panics makes the work panic.
func (w *WorkCall) Panics(value any) { w.outcome <- func() error { panic(value) } }

// Exits ends the goroutine of the work.
func (w *WorkCall) Exits() {
	w.outcome <- func() error {
		runtime.Goexit()
		return nil
	}
}

// Notified waits until the call's context is done, and returns the cause.
func (w *WorkCall) Notified() error {
	w.Env.T.Helper()
	select {
	case <-w.Ctx.Done():
		return context.Cause(w.Ctx)
	case <-w.Env.Ctx.Done():
		require.FailNow(w.Env.T, "the work was not notified")
		return nil
	}
}

// DeleteNode deletes the node of the call's term, as an operator would.
func (w *WorkCall) DeleteNode() {
	w.Env.T.Helper()
	w.deleted.Store(true)
	require.NoError(w.Env.T, w.Env.ZK.Delete(w.Term.Path(), -1))
}
