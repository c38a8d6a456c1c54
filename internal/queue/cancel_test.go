// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCrowdOfCancelledWaitersDoesNotDelayTheNextClient(t *testing.T) {
	const waiters = 1500
	crowded(t, zktest.Options{}, func(s servers) {
		link := s.Link()
		link.Delay(time.Millisecond) // a round trip of 2 ms: 3 s if sequential
		holder := s.loaded(recipes.Options{})
		claim := s.holds(holder, "/b")
		client := s.loaded(recipes.Options{Dial: link.Dial})
		c := s.gather(client, waiters, on("/b"))
		s.queued("/b", 1+waiters, loadTimeout)
		next := make(chan error, 1)
		queue := s.queue(s.loaded(recipes.Options{}), "/b")
		go func() {
			_, err := queue.Claim(s.Context())
			next <- err
		}()
		s.queued("/b", 2+waiters, loadTimeout)
		time.Sleep(loadTimeout)

		began := time.Now()
		c.cancel()
		require.NoError(s, s.queue(holder, "/b").Release(s.Context(), claim))
		require.NoError(s, <-next)
		require.Less(s, time.Since(began), 300*time.Millisecond)
		c.members.Wait()
		require.Less(s, time.Since(began), 300*time.Millisecond)
		require.Zero(s, client.OutstandingNodes())
	})
}

func TestNodeThatMayNotBeDeletedDelaysNoOtherCancelledWaiter(t *testing.T) {
	const waiters = 20
	crowded(t, zktest.Options{}, func(s servers) {
		link := s.Link()
		link.Delay(time.Millisecond)
		s.holds(s.loaded(recipes.Options{}), "/b")
		client := s.loaded(recipes.Options{Dial: link.Dial})
		first := s.gather(client, waiters, on("/b"))
		s.queued("/b", 1+waiters, loadTimeout)
		names, err := s.Children("/b")
		require.NoError(s, err)
		slices.Sort(names)
		forbidden := s.Intercept(zktest.Rule{Op: "delete", Path: "/b/" + names[waiters/2], Fail: zktest.ErrNoAuth})

		began := time.Now()
		first.disperse()
		require.Less(s, time.Since(began), loadTimeout/48)
		s.queued("/b", 2, loadTimeout/48)
		// Nor later ones, while its deletion is retried.
		for range 50 {
			time.Sleep(loadTimeout / 13)
			ctx, cancel := context.WithTimeout(s.Context(), loadTimeout/24)
			began := time.Now()
			_, err := s.queue(client, "/b").Claim(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				require.NoError(s, err)
			}
			require.Less(s, time.Since(began), loadTimeout/24+loadTimeout/48)
		}
		time.Sleep(10 * time.Minute)
		require.Less(s, forbidden.Fired(), 30, "it backs off")
		require.Greater(s, forbidden.Fired(), 9, "and does not give up")
		require.Equal(s, 1, client.OutstandingNodes())
		forbidden.Remove()
		s.queued("/b", 1, time.Minute)
		require.Zero(s, client.OutstandingNodes())
	})
}
