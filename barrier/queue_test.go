// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPathOfQueueIsRefusedAndUnchanged(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		queue, err := queue.New(p.client, path, nil)
		require.NoError(s, err)
		double, err := barrier.NewDouble(p.client, path, 2, nil)
		require.NoError(s, err)
		claim, err := queue.Claim(s.Context())
		require.NoError(s, err)
		refused := func() {
			_, entered := double.Enter(s.Context())
			for _, err := range []error{p.Set(s.Context()), p.Remove(s.Context()), p.Wait(s.Context()), entered} {
				require.ErrorIs(s, err, recipes.ErrQueue)
				require.ErrorContains(s, err, path+": the node is the queue of a lock or an election: use a separate path")
			}
		}
		refused()
		require.NoError(s, queue.Release(s.Context(), claim))
		refused() // the empty queue has the mark of this library
		children, err := s.Children(path)
		require.NoError(s, err)
		require.Empty(s, children)
	})
}

func TestPathThatEndsLikeAContenderIsRefused(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		_, err := barrier.New(p.client, "/orders/clock-1700000000", nil)
		require.ErrorContains(s, err, "ends like a contender's node")
		_, err = barrier.NewDouble(p.client, "/orders/clock-1700000000", 2, nil)
		require.ErrorContains(s, err, "ends like a contender's node")
	})
}
