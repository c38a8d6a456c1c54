// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestSettleCountsOnlyUnwantedNodes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		require.NoError(t, queue.Settle(t.Context()))
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Settle(t.Context()), "a held node is wanted")

		// A waiter is cancelled, and its delete is not answered.
		deletes := s.Intercept(zktest.Rule{Op: "delete", Lose: zktest.ToServer})
		ctx, cancel := context.WithCancel(t.Context())
		result := claiming(ctx, queue)
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-result).err, context.Canceled)
		done, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, queue.Settle(done), recipes.ErrUncertain)
		require.ErrorContains(t, queue.Settle(done), "release /l: outcome unknown: nodes that may remain until their session ends: 1")
		other, err := New(client, "/other", nil)
		require.NoError(t, err)
		require.NoError(t, other.Settle(done), "it is of another queue")

		deletes.Remove()
		require.Eventually(t, func() bool { return queue.Settle(t.Context()) == nil }, time.Minute, time.Second)
		require.Equal(t, []string{claim.Path()}, s.queue())
	})
}

// The servers were not notified, and keep the session's nodes for up to T more.
func TestSettleWaitsForAbandonedSessionToExpire(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		_, client, queue, _ := newHeld(t)
		first := newest(client)
		first.End(session.ErrAbandoned)
		synctest.Wait()
		require.NotSame(t, first, newest(client))
		opened := time.Now()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, queue.Settle(ctx), recipes.ErrUncertain)
		require.Equal(t, time.Second, time.Since(opened))
		require.NoError(t, queue.Settle(t.Context()))
		require.Equal(t, testTimeout, time.Since(opened))
	})
}

func TestSettleAfterAnExpiryFindsNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		_, client, queue, _ := newHeld(t)
		newest(client).End(session.ErrExpired)
		require.NoError(t, queue.Settle(t.Context()))
		synctest.Wait()
		require.NoError(t, queue.Settle(t.Context()))
	})
}

func TestSettleOfAClosedClientDoesNotKnow(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		_, client, queue, _ := newHeld(t)
		client.Close()
		require.ErrorIs(t, queue.Settle(t.Context()), recipes.ErrUncertain)
		var none context.Context
		require.ErrorIs(t, queue.Settle(none), sentinel.ErrNilContext)
	})
}
