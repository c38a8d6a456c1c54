// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// permitRequests returns how many requests each of so many waiters, spread over ten clients, costs
// to join, and how many from then to its release.
func permitRequests(t *testing.T, waiters int) (join, handOver float64) {
	t.Helper()
	crowded(t, zktest.Options{}, func(s servers) {
		counted := s.Intercept(zktest.Rule{Below: "/l"})
		var all []*permits.Permits
		var queues []*queue.Queue
		for range 10 {
			q := s.queue(s.loaded(recipes.Options{}), "/l/permits")
			p, err := permits.New(q, 3)
			require.NoError(s, err)
			all, queues = append(all, p), append(queues, q)
		}
		first, err := all[0].Claim(s.Context(), 3)
		require.NoError(s, err)
		began := sum(counted)
		done := make(chan error)
		for i := range waiters {
			go func() {
				c, err := all[i%10].Claim(s.Context(), 1+i%2)
				if err == nil {
					err = queues[i%10].Release(s.Context(), c)
				}
				done <- err
			}()
		}
		s.queued("/l/permits", waiters+1, loadTimeout)
		joined := sum(counted)
		require.NoError(s, queues[0].Release(s.Context(), first))
		for range waiters {
			require.NoError(s, <-done)
		}
		join = float64(joined-began) / float64(waiters)
		handOver = float64(sum(counted)-joined) / float64(waiters)
	})
	return join, handOver
}

func TestHandOverOfPermitsCostsAsManyRequestsInLongQueues(t *testing.T) {
	for _, waiters := range []int{10, 300} {
		join, handOver := permitRequests(t, waiters)
		t.Logf("%d waiters: %.2f requests to join and wait, %.2f until the release", waiters, join, handOver)
		require.Less(t, join, 8.)
		require.Less(t, handOver, 10.)
	}
}
