// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe follows the leader: it yields the current leader, and each later one when it
// takes over. A reader that is slower than the hand-overs skips to the newest leader.
// Observe yields nothing for a time without candidates, and then yields the next
// leader.
//
// It shows the election as seen by the server that the client is connected to, which
// may lag behind. It continues across disconnections and sessions. It ends when the
// reader stops, or with an error as its last element that states the reason: ctx's,
// recipes.ErrClosed, or that with which a server refused.
//
// All observers of a client share one watch on the leader's node, however many
// candidates wait.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		for {
			front, err := e.queue.Front(ctx)
			if err != nil {
				yield(Leader{}, fmt.Errorf("observe: %w", err))
				return
			}
			if leader := leaderOf(front.Contender); !front.Empty && leader.Token != last.Token {
				last = leader
				if !yield(leader, nil) {
					return
				}
			}
			select {
			case <-front.Changed:
			case <-ctx.Done():
				yield(Leader{}, fmt.Errorf("observe: %w", &recipes.Error{Op: "wait", Path: e.queue.Path(), Err: ended(ctx)}))
				return
			}
		}
	}
}
