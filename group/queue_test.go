// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPathOfQueueIsRefusedAndUnchanged(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		queue, err := queue.New(p.client, path, nil)
		require.NoError(s, err)
		claim, err := queue.Claim(s.Context())
		require.NoError(s, err)
		refused := func() {
			_, joined := p.Join(s.Context(), "a", nil)
			_, listed := p.Members(s.Context())
			var watched error
			for _, watched = range p.Observe(s.Context()) {
				break
			}
			for _, err := range []error{joined, listed, watched} {
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
		_, err := group.New(s.process().client, "/orders/clock-1700000000", nil)
		require.ErrorContains(s, err, "ends like a contender's node")
	})
}
