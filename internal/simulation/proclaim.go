// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// publish has a leader publish several values in turn during d, and that it drains, whether it still leads or not. wait returns
// when it has, and leaves one more value under way.
func (p *Process) publish(by history.Event, term *election.Term, d time.Duration) (wait func()) {
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for range 3 {
			_ = p.proclaim(by, term)
			select {
			case <-time.After(d / 4):
			case <-term.Done():
			}
		}
		p.send(by, term, "drain", func(ctx context.Context, _ history.Event) error { return term.Drain(ctx) })
	})
	return func() {
		publishing.Wait()
		p.working.Go(func() { _ = p.proclaim(by, term) })
	}
}

// proclaim has a leader publish a value, which is the number of the write.
func (p *Process) proclaim(by history.Event, term *election.Term) error {
	return p.send(by, term, "proclaim", func(ctx context.Context, sent history.Event) error {
		return term.Proclaim(ctx, strconv.Itoa(sent.Write))
	})
}

// send records a write of a leader and its answer, which must be one that package election documents.
func (p *Process) send(by history.Event, term *election.Term, text string, f func(context.Context, history.Event) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, p.world.opts.Timeout)
	defer cancel()
	sent, ok := p.recordSent(by, term.Claim, text)
	if !ok {
		return recipes.ErrClosed // it has crashed
	}
	err := f(ctx, sent)
	p.recordAnswered(sent, err)
	if !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) && ctx.Err() == nil {
		p.world.must(err)
	}
	return err
}

// recordProclaimed records what a leader publishes, as the ensemble committed it. It parses the node independently of package
// election.
func (w *World) recordProclaimed(c zktest.Commit) {
	path, is := strings.CutSuffix(c.Path, "-value")
	if !is || len(c.Data) == 0 {
		return
	}
	var node struct {
		Token    fencing.Token
		Value    string
		Draining bool
	}
	if err := json.Unmarshal(c.Data, &node); err != nil {
		w.problemf("value of %s: committed in an unknown format: %w", path, err)
		return
	}
	e := shownAs(node.Value, node.Draining)
	e.Kind, e.Zxid, e.Session, e.Path, e.Node, e.Token = history.Proclaimed, history.ID(c.Zxid), history.ID(c.Session), path, c.Path, history.ID(node.Token)
	w.recorder.AddAt(c.Time, e)
}

// shownAs returns an event with what a leader has published.
func shownAs(value string, draining bool) (e history.Event) {
	e.Write, _ = strconv.Atoi(value)
	if draining {
		e.Text = "draining"
	}
	return e
}

// watchLeaders has the process observe the election at lockPath, and record each leader that it is shown, until the process
// is closed.
func (p *Process) watchLeaders() {
	e, err := p.election(lockPath)
	if err != nil {
		p.must(err)
		return
	}
	p.working.Go(func() {
		for leader, err := range e.Observe(p.ctx) {
			if err != nil {
				if p.ctx.Err() == nil {
					p.must(err)
				}
				return
			}
			p.mu.Lock()
			p.observed = leader
			p.mu.Unlock()
			shown := shownAs(leader.Value, leader.Draining)
			shown.Contender, shown.Path, shown.Token = p.name, lockPath, history.ID(leader.Token)
			p.record(shown, history.Observed)
		}
	})
}

// mustBeSeenBy has the process lead, publish a value and drain until another process was shown that, which must happen after
// any faults that have ended.
func (p *Process) mustBeSeenBy(observer *Process) {
	if p.client == nil || observer.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 16*p.world.opts.Timeout)
	defer cancel()
	by, _ := p.recordAsked(Operation{Kind: "proclaim", Path: lockPath})
	e, err := p.election(lockPath)
	p.must(err)
	term, err := e.Campaign(ctx)
	if err != nil {
		p.recordFailed(by, err)
		p.must(err)
		return
	}
	notified, ok := p.recordGranted(by, term.Claim)
	if !ok {
		return
	}
	pace := time.NewTicker(p.world.fraction(8))
	defer pace.Stop()
	seen := func() bool {
		observer.mu.Lock()
		defer observer.mu.Unlock()
		return observer.observed.Token == term.Token() && observer.observed.Value != ""
	}
	for p.proclaim(by, term); !seen() && term.Err() == nil && ctx.Err() == nil; {
		<-pace.C
	}
	if !seen() && term.Err() == nil {
		p.world.problemf("%s: the value of %s was not shown, but %v", observer.name, p.name, observer.observed)
	}
	p.record(by, history.Releasing)
	err = term.Resign(p.ctx)
	p.recordReleased(by, err)
	<-notified
}
