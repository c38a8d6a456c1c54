// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe follows the leader: it yields the current leader, each later one when it takes
// over, and the leader again when its Value or Draining has changed. A reader that is
// slower than the changes skips to the newest.
// Observe yields nothing for a time without candidates, and then yields the next
// leader.
//
// It shows the election as seen by the server that the client is connected to, which
// may lag behind. It continues across disconnections and sessions. It ends when the
// reader stops, or with an error as its last element that states the reason: ctx's,
// recipes.ErrClosed, or that with which a server refused.
//
// The leaders that it yields have rising tokens, and the values of one leader come in the order in
// which it published them. A value that was shown lasts until the leader publishes another one or
// another candidate leads.
//
// All observers of a client share two watches, on the leader's node and on the node of its
// value, however many candidates wait.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		var session int64 // of the last one's node
		for {
			front, err := e.queue.Front(ctx)
			if err != nil {
				yield(Leader{}, fmt.Errorf("observe: %w", err))
				return
			}
			// Read after the leader: a value that is older than it has another token.
			value, changed, err := e.value.Watch(ctx)
			if err != nil && !record.IsForeign(err) { // other data is no value of this leader
				yield(Leader{}, fmt.Errorf("observe: %w", err))
				return
			}
			leader, found := leaderOf(front.Contender).withValue(value)
			same := front.Contender.Session == session && leader.isTermOf(last)
			if !found && same {
				// The value already comes from the next leader, which Changed announces: until then, this
				// one has the value that it was shown with.
				leader = last
			}
			if !front.Empty && (!same || !leader.isShownAs(last)) {
				last, session = leader, front.Contender.Session
				if !yield(leader, nil) {
					return
				}
			}
			select {
			case <-front.Changed:
			case <-changed:
			case <-ctx.Done():
				yield(Leader{}, fmt.Errorf("observe: %w", &recipes.Error{Op: "wait", Path: e.queue.Path(), Err: ctxerr.Ended(ctx)}))
				return
			}
		}
	}
}

// isTermOf reports whether l and m show the same term, if it is of the same session. An ensemble that was wiped or restored can grant a token
// again, to another candidate.
func (l Leader) isTermOf(m Leader) bool {
	return l.Token == m.Token && l.Owner == m.Owner && l.Host == m.Host && l.PID == m.PID
}

// isShownAs reports whether l shows its term with the same value as m.
func (l Leader) isShownAs(m Leader) bool { return l.Value == m.Value && l.Draining == m.Draining }
