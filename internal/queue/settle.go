// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Settle waits until this client's unwanted nodes in the queue are gone: nodes of waiters
// that gave up, and nodes of claims that were lost or whose release was not confirmed. It
// returns nil if there are none. Nodes of current waiters and holders do not count.
//
// It waits no longer than ctx and the release timeout, and not while no server
// serves the session; if ctx is done already, no longer than T/8, which is enough
// for deletions in flight. An ErrUncertain reports how many nodes may
// remain: they are deleted in the background while the client is open, and at the
// latest when their session ends.
func (q *Queue) Settle(ctx context.Context) error {
	if ctx == nil {
		return &recipes.Error{Op: "release", Path: q.path, Err: sentinel.ErrNilContext}
	}
	s := q.Client.Newest()
	bound := q.releaseTimeout(s)
	if ctx.Err() != nil {
		ctx, bound = context.WithoutCancel(ctx), min(bound, s.Timeout()/8)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		left, expiry := q.Client.Unwanted(q.path)
		if len(left) == 0 {
			return nil
		}
		s.Wake()
		if !q.awaitGone(ctx, s, left, expiry) {
			return &recipes.Error{Op: "release", Path: q.path, Err: fmt.Errorf("%w: nodes that may remain until their session ends: %d", sentinel.ErrUncertain, len(left))}
		}
	}
}

// awaitGone waits until none of the places has a node, or until the caller has to count
// the remaining ones again. It reports false if waiting is useless.
func (q *Queue) awaitGone(ctx context.Context, s *client.Session, places []*nodes.Node, expiry time.Duration) bool {
	served, detached := s.Served()
	if !served || s.Ended() != nil || ctx.Err() != nil {
		return false
	}
	end := time.After(expiry)
	// One after another: counting again after each would take quadratic time.
	for _, p := range places {
		select {
		case <-p.Gone():
			continue
		case <-end:
		case <-detached:
		case <-s.Context().Done():
		case <-ctx.Done():
		}
		return true
	}
	return true
}
