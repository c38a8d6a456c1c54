// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A watchedContext calls f when the contexts that are derived from it look at it, which
// they do as they are cancelled.
type watchedContext struct {
	context.Context
	f *atomic.Pointer[func()]
}

func (c watchedContext) Done() <-chan struct{} {
	if f := c.f.Swap(nil); f != nil {
		(*f)()
	}
	return c.Context.Done()
}

func TestUnlockAfterTheDeadlineDeletesTheNodeImmediately(t *testing.T) {
	for name, first := range map[string]bool{"before the client schedules its deletion": true, "after that": false} {
		t.Run(name, func(t *testing.T) {
			crowded(t, zktest.Options{}, func(s servers) {
				link := s.Link()
				client := s.loaded(recipes.Options{Dial: link.Dial})
				queue := s.queue(client, "/a")
				claim, err := queue.Claim(s.Context())
				require.NoError(s, err)
				released := 0
				release := func() {
					require.ErrorIs(s, queue.Release(s.Context(), claim), recipes.ErrDeadline)
					released++
				}
				var hook atomic.Pointer[func()]
				_, cancel := claim.Context(watchedContext{s.Context(), &hook})
				defer cancel()
				time.Sleep(2 * loadTimeout)
				if first {
					hook.Store(&release)
				}
				link.Refuse(true)
				link.Reset()
				<-claim.Done()
				link.Refuse(false)
				if !first {
					time.Sleep(time.Nanosecond)
					release()
				}
				s.queued("/a", 0, loadTimeout/12)
				require.Equal(s, 1, released)
				require.Zero(s, client.OutstandingNodes())
			})
		})
	}
}

func TestCommitThatWaitedThroughAnOutageDoesNotShortenTheNextDeadlines(t *testing.T) {
	left := func(commit bool) (left time.Duration) {
		crowded(t, zktest.Options{}, func(s servers) {
			link := s.Link()
			link.Delay(time.Millisecond)
			client := s.loaded(recipes.Options{Dial: link.Dial})
			claim := s.holds(client, "/a")
			time.Sleep(2 * loadTimeout)
			link.Refuse(true)
			link.Reset()
			time.Sleep(loadTimeout / 100)
			committed := make(chan error, 1)
			if commit {
				go func() {
					_, err := claim.Commit(s.Context())
					committed <- err
				}()
			} else {
				committed <- nil
			}
			time.Sleep(loadTimeout / 5)
			link.Refuse(false)
			require.NoError(s, <-committed)
			time.Sleep(loadTimeout / 12)
			require.NoError(s, claim.Err())
			left = time.Until(claim.Deadline())
		})
		return left
	}
	// The time of the next attempt is random.
	require.GreaterOrEqual(t, left(true), left(false)-loadTimeout/12)
}
