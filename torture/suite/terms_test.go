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

// A rota is who works for an election: candidates which call Run, whose work does
// what the test says. It fails the test when two work at once.
type rota struct {
	stage *stage
	name  string
	began chan *shift // each time that work begins

	mu       sync.Mutex // guards what follows
	working  []*shift
	newest   fencing.Token
	overlaps []string
}

// rota is one for the election at the path "election".
func (s *stage) rota() *rota {
	r := &rota{stage: s, name: "election", began: make(chan *shift, 1000)}
	s.t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, overlap := range r.overlaps {
			s.t.Error(overlap)
		}
	})
	return r
}

// A shift is one call of the work. It does not look at its context: it goes on
// until the test says what it returns.
type shift struct {
	stage   *stage
	who     *candidate
	ctx     context.Context
	term    *election.Term
	outcome chan func() error

	deleted atomic.Bool // its node, by hand: another may lead before it is told
}

// A candidate is one that calls Run, with a client of its own behind a proxy of
// its own.
type candidate struct {
	rota   *rota
	id     string
	opts   election.Options
	client *recipes.Client
	proxy  *docker.Proxy
	beats  atomic.Int64 // heartbeats that were answered

	stop     func()        // ends Run's ctx, with the cause errStopped
	ended    chan struct{} // closed when Run has returned or panicked
	err      error         // valid then, as is what follows
	panicked any
}

var errStopped = errors.New("stopped by the test")

// candidate makes a candidate, which waits for its turn when this returns.
func (r *rota) candidate(opts election.Options) *candidate {
	r.stage.t.Helper()
	c := &candidate{rota: r, id: opts.ID, opts: opts, proxy: r.stage.proxy(r.stage.ensemble.Servers()[0])}
	c.client = r.stage.connect(recipes.Options{Trace: &recipes.Trace{
		Heartbeat: func(_ time.Duration, err error) {
			if err == nil {
				c.beats.Add(1)
			}
		},
	}}, c.proxy.Addr())
	before := len(r.stage.nodes(r.name))
	c.run()
	r.stage.waiting(r.name, before+1)
	return c
}

// run begins a Run. The test ends only after it has.
func (c *candidate) run() {
	s := c.rota.stage
	s.t.Helper()
	e := s.electionWith(c.client, c.rota.name, c.opts)
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

// result waits for what Run returned.
func (c *candidate) result() error {
	c.rota.stage.t.Helper()
	select {
	case <-c.ended:
		return c.err
	case <-c.rota.stage.ctx.Done():
		require.FailNow(c.rota.stage.t, "Run has not returned")
		return nil
	}
}

// over says whether Run has returned.
func (c *candidate) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// beat waits until the candidate's session has been proved n times more.
func (c *candidate) beat(n int64) {
	c.rota.stage.t.Helper()
	n += c.beats.Load()
	c.rota.stage.eventually("heartbeats", func() bool { return c.beats.Load() >= n })
}

func (c *candidate) work(ctx context.Context, term *election.Term) error {
	w := &shift{stage: c.rota.stage, who: c, ctx: ctx, term: term, outcome: make(chan func() error, 1)}
	c.rota.begin(w)
	defer c.rota.end(w)
	c.rota.began <- w
	select {
	case outcome := <-w.outcome:
		return outcome()
	case <-c.rota.stage.ctx.Done():
		return c.rota.stage.ctx.Err()
	}
}

// begin compares the shift that begins with those that have not ended.
func (r *rota) begin(w *shift) {
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
			overlaps = append(overlaps, overlap+" and was not told")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overlaps = append(r.overlaps, overlaps...)
}

func (r *rota) end(w *shift) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working = slices.DeleteFunc(r.working, func(other *shift) bool { return other == w })
}

// next waits for the next shift to begin.
func (r *rota) next() *shift {
	r.stage.t.Helper()
	select {
	case w := <-r.began:
		return w
	case <-r.stage.ctx.Done():
		require.FailNow(r.stage.t, "nobody leads")
		return nil
	}
}

// idle says that no shift has begun that next did not return.
func (r *rota) idle() bool { return len(r.began) == 0 }

// returns has the work return err.
func (w *shift) returns(err error) { w.outcome <- func() error { return err } }

// panics has the work panic.
func (w *shift) panics(value any) { w.outcome <- func() error { panic(value) } }

// exits ends the goroutine of the work.
func (w *shift) exits() {
	w.outcome <- func() error {
		runtime.Goexit()
		return nil
	}
}

// told waits until the shift's context is done, and returns why it is.
func (w *shift) told() error {
	w.stage.t.Helper()
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.stage.ctx.Done():
		require.FailNow(w.stage.t, "the work was not told")
		return nil
	}
}

// deleteNode deletes the node of the shift's term behind its back.
func (w *shift) deleteNode() {
	w.stage.t.Helper()
	w.deleted.Store(true)
	require.NoError(w.stage.t, w.stage.zk.Delete(w.term.Path(), -1))
}
