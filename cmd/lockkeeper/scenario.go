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
	writesBefore = 4 // that the leader does before it is cut off
	pacePart     = 8 // writes fit into a session timeout
)

// A story is one run of the demo.
type story struct {
	ground     *ground
	path       string // of the election
	timeline   *timeline
	store      store
	candidates []*candidate
	pace       *time.Ticker // of the writes
	writes     int          // attempted, by whomever

	led       chan campaigned    // from those who wait in line
	campaigns sync.WaitGroup     // they
	withdraw  context.CancelFunc // ends their waiting
	watchers  sync.WaitGroup     // one for each term, until it has ended

	mu      sync.Mutex // guards account.reigns until the watchers have ended
	account account
}

// A tenure is a term and who has it.
type tenure struct {
	who  *candidate
	term *election.Term
	told chan struct{} // closed when Done was, and the timeline has it
}

// campaigned is how a campaign ended.
type campaigned struct {
	tenure *tenure
	err    error
}

// tell plays the story. Its error is that it could not be played to its end.
func (s *story) tell(ctx context.Context) error {
	old, err := s.begin(ctx)
	if err != nil {
		return err
	}
	for range writesBefore {
		if err := s.writeAtPace(ctx, old); err != nil {
			return err
		}
	}

	old.who.cut.sever()
	s.account.cutOff, s.account.cutAt = old.who.name, time.Now()
	s.timeline.zero(old.who.name, "is cut off from ZooKeeper")
	for old.holds() {
		if err := s.writeAtPace(ctx, old); err != nil {
			return err
		}
	}
	<-old.told
	s.timeline.say("", "waiting for the ensemble to expire %s's session, %v after it last heard of it",
		old.who.name, old.who.client.SessionTimeout())

	next, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	if err := s.write(next, "writes"); err != nil {
		return err
	}
	s.pace.Reset(next.who.client.SessionTimeout() / pacePart)
	if err := s.wait(ctx); err != nil {
		return err
	}
	// It does not look at its term before it writes, as a process that was asleep
	// cannot.
	s.account.late = s.write(old, "heeds nothing and writes late,")
	if err := s.writeAtPace(ctx, next); err != nil {
		return err
	}
	if err := s.comeBack(ctx, old.who); err != nil {
		return err
	}
	return s.resign(ctx, next)
}

// begin has the first candidate lead, and the others wait in line behind it.
func (s *story) begin(ctx context.Context) (*tenure, error) {
	for _, name := range []string{"a", "b", "c"} {
		c, err := newCandidate(ctx, name, s.path, s.ground, s.timeline)
		if err != nil {
			return nil, err
		}
		s.candidates = append(s.candidates, c)
	}
	timeout := s.candidates[0].client.SessionTimeout()
	s.timeline.say("all", "are connected, each in a session that expires after %v without contact", timeout)
	s.pace = time.NewTicker(timeout / pacePart)

	first, err := s.campaign(ctx, s.candidates[0])
	if err != nil {
		return nil, err
	}
	campaigns, cancel := context.WithCancel(ctx)
	s.withdraw = cancel
	for _, c := range s.candidates[1:] {
		s.campaigns.Go(func() {
			t, err := s.campaign(campaigns, c)
			s.led <- campaigned{t, err}
		})
		select {
		case <-c.inLine:
		case l := <-s.led:
			if l.err != nil {
				return nil, l.err
			}
			return nil, fmt.Errorf("%s leads before anybody was cut off", l.tenure.who.name)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return first, nil
}

// takeOver waits until one of those in line leads.
func (s *story) takeOver(ctx context.Context) (*tenure, error) {
	select {
	case l := <-s.led:
		return l.tenure, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("nobody took over: %w", context.Cause(ctx))
	}
}

// comeBack lets a candidate reach ZooKeeper again, and look.
func (s *story) comeBack(ctx context.Context, c *candidate) error {
	s.timeline.say(c.name, "is let back to ZooKeeper")
	c.cut.mend()
	leader, err := c.election.Leader(ctx)
	if err != nil {
		return fmt.Errorf("candidate %s: %w", c.name, err)
	}
	s.timeline.say(c.name, "sees that %s leads, token %v", leader.ID, leader.Token)
	return nil
}

// resign ends the last term, once nobody waits for it any more.
func (s *story) resign(ctx context.Context, last *tenure) error {
	s.withdraw()
	s.campaigns.Wait()
	if err := last.term.Resign(ctx); err != nil {
		return fmt.Errorf("candidate %s: %w", last.who.name, err)
	}
	s.timeline.say(last.who.name, "resigns")
	return nil
}

// end takes back whatever still stands, wherever the story broke off.
func (s *story) end() {
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
	s.campaigns.Wait()
	s.watchers.Wait()
}

// campaign waits until c leads, and has its term watched.
func (s *story) campaign(ctx context.Context, c *candidate) (*tenure, error) {
	term, err := c.election.Campaign(ctx)
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", c.name, err)
	}
	r := reign{who: c.name, token: term.Token(), began: time.Now()}
	s.timeline.say(c.name, "leads, token %v", r.token)
	t := &tenure{who: c, term: term, told: make(chan struct{})}
	s.watchers.Go(func() {
		// Err would end the term by itself where its deadline has passed: what is
		// measured is when one is told who only waits.
		<-term.Done()
		r.ended = time.Now()
		r.err = term.Err()
		if cause := lossOf(r.err); cause != nil {
			s.timeline.say(c.name, "is told: %v", cause)
		}
		s.mu.Lock()
		s.account.reigns = append(s.account.reigns, r)
		s.mu.Unlock()
		close(t.told)
	})
	return t, nil
}

// holds says whether Done is open.
func (t *tenure) holds() bool {
	select {
	case <-t.term.Done():
		return false
	default:
		return true
	}
}

// lossOf is why a term was lost; nil if its holder ended it.
func lossOf(err error) error {
	for _, cause := range []error{recipes.ErrDeadline, recipes.ErrSessionExpired, recipes.ErrDeleted} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// writeAtPace writes when it is time to, unless the term ends before.
func (s *story) writeAtPace(ctx context.Context, t *tenure) error {
	select {
	case <-s.pace.C:
		if t.holds() {
			return s.write(t, "writes")
		}
	case <-t.term.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// wait waits for as long as lies between two writes.
func (s *story) wait(ctx context.Context) error {
	select {
	case <-s.pace.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes to the store with the term's token, ended or not, and tells what
// came of it.
func (s *story) write(t *tenure, verb string) error {
	s.writes++
	token := t.term.Token()
	err := s.store.write(row{number: s.writes, writer: t.who.name, token: token})
	answer := "admitted"
	var stale *fencing.StaleError
	switch {
	case errors.As(err, &stale):
		answer = fmt.Sprintf("refused, stale: newest is %v", stale.Newest)
	case err != nil:
		answer = fmt.Sprintf("refused: %v", err)
	}
	s.timeline.say(t.who.name, "%s #%d with token %v: %s", verb, s.writes, token, answer)
	if err != nil {
		return fmt.Errorf("write #%d of %s: %w", s.writes, t.who.name, err)
	}
	return nil
}
