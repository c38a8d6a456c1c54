// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	writesBefore     = 4 // writes of the leader before the partition
	writesPerTimeout = 8 // writes in a session timeout
)

// A scenario is one run of the demo.
type scenario struct {
	target     *target
	path       string // of the election
	timeline   *timeline
	store      store
	candidates []*candidate
	pace       *time.Ticker // one tick per write
	writes     int          // attempted, by any candidate

	led      chan campaignResult // the results of the waiters' campaigns
	waiters  sync.WaitGroup      // the campaigns of the waiters
	withdraw context.CancelFunc  // cancels waiters
	watchers sync.WaitGroup      // one goroutine for each term, until it has ended

	mu           sync.Mutex // guards measurements.terms until the watchers have ended
	measurements measurements
}

// A leadership is a term and the candidate that leads in it.
type leadership struct {
	candidate *candidate
	term      *election.Term
	notified  chan struct{} // closed after Done was closed and the timeline has reported it
}

// A campaignResult is the result of a campaign.
type campaignResult struct {
	leadership *leadership
	err        error
}

// run executes the scenario. An error means that it was not completed.
func (s *scenario) run(ctx context.Context) error {
	old, err := s.begin(ctx)
	if err != nil {
		return err
	}
	for range writesBefore {
		if err := s.writeAtPace(ctx, old); err != nil {
			return err
		}
	}

	old.candidate.link.partition()
	s.measurements.partitioned, s.measurements.partitionedAt = old.candidate.name, time.Now()
	s.timeline.zero(old.candidate.name, "is partitioned from ZooKeeper")
	for old.isOpen() {
		if err := s.writeAtPace(ctx, old); err != nil {
			return err
		}
	}
	<-old.notified
	s.timeline.say("", "waiting for the ensemble to expire %s's session, %v after its last contact",
		old.candidate.name, old.candidate.client.SessionTimeout())

	next, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	if err := s.write(next, "writes"); err != nil {
		return err
	}
	s.pace.Reset(next.candidate.client.SessionTimeout() / writesPerTimeout)
	if err := s.wait(ctx); err != nil {
		return err
	}
	// It does not check its term before it writes, as a process that was paused does not.
	s.measurements.stale = s.write(old, "ignores its loss: stale write")
	if err := s.writeAtPace(ctx, next); err != nil {
		return err
	}
	if err := s.comeBack(ctx, old.candidate); err != nil {
		return err
	}
	return s.resign(ctx, next)
}

// begin makes the first candidate the leader, and queues the others behind it.
func (s *scenario) begin(ctx context.Context) (*leadership, error) {
	for _, name := range []string{"a", "b", "c"} {
		c, err := newCandidate(ctx, name, s.path, s.target, s.timeline)
		if err != nil {
			return nil, err
		}
		s.candidates = append(s.candidates, c)
	}
	timeout := s.candidates[0].client.SessionTimeout()
	s.timeline.say("all", "are connected; each session expires after %v without contact", timeout)
	s.pace = time.NewTicker(timeout / writesPerTimeout)

	first, err := s.campaign(ctx, s.candidates[0])
	if err != nil {
		return nil, err
	}
	waiters, cancel := context.WithCancel(ctx)
	s.withdraw = cancel
	for _, c := range s.candidates[1:] {
		s.waiters.Go(func() {
			t, err := s.campaign(waiters, c)
			s.led <- campaignResult{t, err}
		})
		select {
		case <-c.queued:
		case l := <-s.led:
			if l.err != nil {
				return nil, l.err
			}
			return nil, fmt.Errorf("candidate %s leads before the partition", l.leadership.candidate.name)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return first, nil
}

// takeOver waits until one of the queued candidates leads.
func (s *scenario) takeOver(ctx context.Context) (*leadership, error) {
	select {
	case l := <-s.led:
		return l.leadership, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no candidate took over: %w", context.Cause(ctx))
	}
}

// comeBack heals the partition of a candidate, which then reads the leader.
func (s *scenario) comeBack(ctx context.Context, c *candidate) error {
	s.timeline.say(c.name, "can reach ZooKeeper again")
	c.link.heal()
	leader, err := c.election.Leader(ctx)
	if err != nil {
		return fmt.Errorf("candidate %s: %w", c.name, err)
	}
	s.timeline.say(c.name, "sees that %s leads, token %v", leader.Owner, leader.Token)
	return nil
}

// resign ends the last term, after the waiters have left the queue.
func (s *scenario) resign(ctx context.Context, last *leadership) error {
	s.withdraw()
	s.waiters.Wait()
	if err := last.term.Resign(ctx); err != nil {
		return fmt.Errorf("candidate %s: %w", last.candidate.name, err)
	}
	s.timeline.say(last.candidate.name, "resigns")
	return nil
}

// close ends everything that the scenario has started, however far it got.
func (s *scenario) close() {
	if s.withdraw != nil {
		s.withdraw()
	}
	if s.pace != nil {
		s.pace.Stop()
	}
	var closing sync.WaitGroup
	for _, c := range s.candidates {
		closing.Go(c.close)
	}
	closing.Wait()
	s.waiters.Wait()
	s.watchers.Wait()
}

// campaign waits until c leads, and starts a goroutine that measures its term.
func (s *scenario) campaign(ctx context.Context, c *candidate) (*leadership, error) {
	term, err := c.election.Campaign(ctx)
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", c.name, err)
	}
	m := measuredTerm{who: c.name, token: term.Token(), began: time.Now()}
	s.timeline.say(c.name, "leads, token %v", m.token)
	t := &leadership{candidate: c, term: term, notified: make(chan struct{})}
	s.watchers.Go(func() {
		// Err would end the term by itself after its deadline. The measurement is when
		// a holder is notified that only waits for Done.
		<-term.Done()
		m.ended = time.Now()
		m.err = term.Err()
		if cause := lossOf(m.err); cause != nil {
			s.timeline.say(c.name, "is notified: %v", cause)
		}
		s.mu.Lock()
		s.measurements.terms = append(s.measurements.terms, m)
		s.mu.Unlock()
		close(t.notified)
	})
	return t, nil
}

// isOpen reports whether the term's Done is open.
func (t *leadership) isOpen() bool {
	select {
	case <-t.term.Done():
		return false
	default:
		return true
	}
}

// lossOf returns the reason why a term was lost, or nil if its holder ended it.
func lossOf(err error) error {
	for _, cause := range []error{recipes.ErrDeadline, recipes.ErrSessionExpired, recipes.ErrDeleted} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// writeAtPace writes at the next tick of pace, unless the term ends before.
func (s *scenario) writeAtPace(ctx context.Context, t *leadership) error {
	select {
	case <-s.pace.C:
		if t.isOpen() {
			return s.write(t, "writes")
		}
	case <-t.term.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// wait waits for the next tick of pace.
func (s *scenario) wait(ctx context.Context) error {
	select {
	case <-s.pace.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes to the store with the term's token, even if the term has ended, and
// reports the result on the timeline.
func (s *scenario) write(t *leadership, verb string) error {
	s.writes++
	token := t.term.Token()
	err := s.store.write(row{number: s.writes, writer: t.candidate.name, token: token})
	answer := "accepted"
	var stale *fencing.StaleError
	switch {
	case errors.As(err, &stale):
		answer = fmt.Sprintf("rejected as stale, newest token is %v", stale.Newest)
	case err != nil:
		answer = fmt.Sprintf("rejected: %v", err)
	}
	s.timeline.say(t.candidate.name, "%s #%d with token %v: %s", verb, s.writes, token, answer)
	if err != nil {
		return fmt.Errorf("write #%d of %s: %w", s.writes, t.candidate.name, err)
	}
	return nil
}
