// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/candidacy"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Campaign adds a candidate and waits until it is the leader. Candidates lead in the
// order in which they joined the queue. A candidate yields, and joins again at the end, for
// one that a leader has named (Term.HandOver) and for one of a higher priority (Options.Priority).
//
// ctx bounds the wait and not the term. A candidate that loses its session joins
// again at the end of the queue. After an error there is no candidate, and its node
// is gone: Campaign waits for the deletion, for the release timeout at most. If no
// server can be reached, the node is deleted in the background. If a create is in
// progress when ctx ends, Campaign first waits for its answer: a round trip as a
// rule, a quarter of the session timeout at most. No node outlives its session. The
// error is ctx's, recipes.ErrClosed, or a server's refusal. The error of a Campaign that waited until
// the deadline of ctx is a *LeaderError, which names the leader: it is read, with two requests, at most a second
// before the deadline, and may have changed since. With Options.LockDelay
// or Options.Fence, the error of a Campaign that ended in the delay or failed to fence is a
// *recipes.UnreleasedError, which names the former leader.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	c := &candidate{election: e}
	how := candidacy.Options{Priority: e.priority, Yields: c.yields}
	if e.priority > 0 {
		how.Waits = c.showLiveness
	}
	l := e.leaders.Before(ctx)
	claim, err := candidacy.Claim(ctx, e.queue, how)
	first, found := l.End()
	// A candidate that is the first itself waits for one of a higher priority, or for the lock-delay.
	if found && errors.Is(err, context.DeadlineExceeded) && first.Name != c.first && !errors.As(err, new(*recipes.UnreleasedError)) {
		return nil, &LeaderError{Path: e.Path(), Leader: leaderOf(first), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	term := &Term{Claim: claim, queue: e.queue, value: e.value, owner: e.owner, election: e}
	e.setNewest(term)
	return term, nil
}

// A candidate is one call of Campaign. Its methods are not called concurrently, but for
// showLiveness.
type candidate struct {
	election *Election
	first    string    // name of its node when it could last have led
	until    time.Time // when it ceases to yield for priorities; zero until it could first have led
}

// yields decides whether the candidate, which could lead, yields to one of those behind it.
func (c *candidate) yields(ctx context.Context, p *candidacy.Position, behind []candidacy.Rank) (bool, error) {
	c.first = p.Name()
	if c.until.IsZero() {
		c.until = time.Now().Add(c.election.priorityWait)
	}
	request, err := c.election.request(ctx)
	if err != nil {
		return false, err
	}
	switch turnOf(p.Name(), request.Target, c.election.priority, behind) {
	case yield:
		return true, nil
	case awaitHigher:
		return c.awaitLive(ctx, p, behind)
	case lead:
	}
	return false, nil
}

// A turn is what a candidate does that has no predecessor.
type turn int

const (
	lead        turn = iota
	yield            // join again at the end
	awaitHigher      // yield if a candidate of a higher priority shows in time that it lives
)

// turnOf is the rule by which a candidate decides, a function of its node's name, of the name of the
// node that the last hand-over requested, and of what the listing shows of the others. A target
// that has left is ignored, as is one that is ahead. The target itself leads, whatever the
// priorities of the others.
func turnOf(own, target string, priority int, behind []candidacy.Rank) turn {
	if own == target {
		return lead
	}
	decision := lead
	for _, r := range behind {
		switch {
		case r.Name == target:
			return yield
		case r.Priority > priority:
			decision = awaitHigher
		}
	}
	return decision
}
