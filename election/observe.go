// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe follows who leads: it yields the leader, and each further one when it
// takes over. A reader that is slower than the hand-overs skips to the newest. A
// time without candidates is not yielded; the next leader is.
//
// It goes on over disconnections and into further sessions, as the server that the
// client is connected to sees the election, which may be somewhat behind. It ends
// when the reader stops, or with an error as its last element that says why: ctx's,
// recipes.ErrClosed, or what a server refused.
//
// It is one watch on the leader's node for all observers of a client, however many
// candidates wait.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		for {
			front, err := e.line.Front(ctx)
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
				yield(Leader{}, fmt.Errorf("observe: %w", &recipes.Error{Op: "wait", Path: e.line.Path(), Err: ended(ctx)}))
				return
			}
		}
	}
}
