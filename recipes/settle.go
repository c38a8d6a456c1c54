// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Settle waits until the nodes are gone that this client no longer wants in the
// line: those of waiters that gave up, and those of claims that were lost or whose
// release was not confirmed. It returns nil if there are none. Nodes that are waited
// with or held do not count, whoever waits with them or holds them.
//
// It waits no longer than ctx and the release timeout, and not while no server
// serves the session; if ctx is done already, no longer than T/8, which is enough
// for deletions that are under way. An ErrUncertain reports how many nodes may
// remain: they are deleted in the background while the client is open, and go when
// their session ends at the latest.
func (l *Line) Settle(ctx context.Context) error {
	if ctx == nil {
		return &Error{Op: "release", Path: l.path, Err: errNilContext}
	}
	s := l.client.newest()
	bound := l.releaseTimeout(s)
	if ctx.Err() != nil {
		ctx, bound = context.WithoutCancel(ctx), min(bound, s.timeout()/8)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		left, expiry := l.client.unwanted(l.path)
		if len(left) == 0 {
			return nil
		}
		s.alarm.Ring()
		if !l.awaitGone(ctx, s, left, expiry) {
			return &Error{Op: "release", Path: l.path, Err: fmt.Errorf("%w: nodes that may remain until their session ends: %d", ErrUncertain, len(left))}
		}
	}
}

// awaitGone waits until none of the places has a node, or until it has to be counted
// again which of them may have one. It reports false if it is of no use to wait.
func (l *Line) awaitGone(ctx context.Context, s *session, places []*place, expiry time.Duration) bool {
	s.mu.Lock()
	served, detach := s.isAttached, s.detach
	s.mu.Unlock()
	if !served || s.ended() != nil || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(expiry)
	defer timer.Stop()
	// Each in turn: to count again after each would take the square of their number.
	for _, p := range places {
		select {
		case <-p.gone:
			continue
		case <-timer.C:
		case <-detach:
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
		return true
	}
	return true
}

// unwanted returns the places of a line that nobody wants any more and whose nodes
// may exist, and how long it takes at most until one of them has expired, if that
// can be told.
func (c *Client) unwanted(line string) (places []*place, expiry time.Duration) {
	c.mu.Lock()
	s, before, renewed := c.current, c.previous, c.renewed
	c.mu.Unlock()
	places, expiry = s.unwanted(line), math.MaxInt64
	// Once there has been another session for T, a server would have expired the one
	// before it, which may have been given up without being told.
	if left := s.timeout() - time.Since(renewed); before != nil && left > 0 {
		if old := before.unwanted(line); len(old) > 0 {
			places, expiry = append(places, old...), left
		}
	}
	return places, expiry
}

func (s *session) unwanted(line string) []*place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.over, errExpired) {
		return nil
	}
	return s.ledger.unwanted(line, s.over != nil)
}

// unwanted returns the places of the line whose nodes are to be deleted. Those that
// are waited with or held are unwanted too if the session is over.
func (l *ledger) unwanted(line string, over bool) []*place {
	var places []*place
	for p := range l.places {
		if p.line == line && (over || p.standing == leaving || p.standing == parting || p.standing == doubtful) {
			places = append(places, p)
		}
	}
	return places
}
