// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// "proclaim" is "campaign" with values of the leader.
func init() {
	operations["proclaim"] = operation{acquire: (*Process).campaign, during: func(p *Process, by history.Event, got *grant, o Operation) {
		published := p.publish(by, got.term, o.Hold)
		p.workUnder(by, got, o)
		published()
	}}
}

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
		_ = p.send(by, term, "drain", func(ctx context.Context, _ history.Event) error { return term.Drain(ctx) })
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
			shown := history.Event{Contender: p.name, Path: lockPath, Token: history.ID(leader.Token)}
			shown.Write, shown.Text = history.Shown(leader.Value, leader.Draining)
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
	for _ = p.proclaim(by, term); !seen() && term.Err() == nil && ctx.Err() == nil; {
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
