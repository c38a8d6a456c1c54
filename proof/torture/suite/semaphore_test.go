// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The answers of a server arrive late, and with them the news that another client has changed the limit.
func TestSemaphoreOfClientThatLagsBehindStoresAndFollowsLimits(t *testing.T) {
	t.Parallel()
	const late = 100 * time.Millisecond
	s := onOne(t)
	slow, proxies := s.behindProxies(recipes.Options{})
	semaphore := func(client *recipes.Client, limit int) *lock.Semaphore {
		sem, err := lock.NewSemaphore(client, s.Path("permits"), limit, nil)
		require.NoError(t, err)
		return sem
	}
	fast := semaphore(s.Connect(recipes.Options{}), 3)
	requireLimit := func(want int) {
		t.Helper()
		got, err := fast.Limit(s.Ctx)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	requireLimit(3)
	hold, err := semaphore(slow, 3).Acquire(s.Ctx, 1) // from now on, it knows the limit
	require.NoError(t, err)
	require.NoError(t, hold.Release(s.Ctx))

	for range 3 {
		require.NoError(t, fast.Resize(s.Ctx, 3))
		s.Eventually("the slow client reads the first limit", func() bool {
			limit, err := semaphore(slow, 3).Limit(s.Ctx)
			return err == nil && limit == 3
		})
		proxies[0].Delay(docker.ToClient, late)
		require.NoError(t, fast.Resize(s.Ctx, 5))
		require.NoError(t, semaphore(slow, 3).Resize(s.Ctx, 3))
		requireLimit(3)

		require.NoError(t, fast.Resize(s.Ctx, 5))
		hold, err := semaphore(slow, 5).Acquire(s.Ctx, 5)
		require.NoError(t, err, "the stored limit is its own")
		proxies[0].Delay(docker.Both, 0)
		require.NoError(t, hold.Release(s.Ctx))
	}
}
