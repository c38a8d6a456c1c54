// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTryOfHeldQueueCreatesNothingCostsTwoReadsAndNamesTheHolder(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		holding := newQueue(t, client, &Options{Owner: "pod-7"})
		claim, err := holding.Try(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		before := len(s.seen(anyRequest))
		_, err = newQueue(t, client, nil).Try(t.Context())
		var busy *recipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "/l", busy.Path)
		require.Equal(t, "pod-7", busy.Front.Owner)
		require.Equal(t, claim.Token(), busy.Front.Token)
		require.ErrorContains(t, err, `/l is held by "pod-7"`)
		asked := s.seen(anyRequest)[before:]
		require.Len(t, asked, 2)
		for _, r := range asked {
			require.Contains(t, []string{"getData", "getChildren2"}, r.Op)
		}
		require.NoError(t, holding.Release(t.Context(), claim))
		again, err := newQueue(t, client, nil).Try(t.Context())
		require.NoError(t, err)
		require.NoError(t, holding.Release(t.Context(), again))
	})
}

func TestTryThatLosesTheRaceLeavesNoNode(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", string(protocol.ParentData(0)))
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		s.Intercept(zktest.Rule{When: isJoin, Before: func(zktest.Request) { // after the listing
			s.create(another, "pod-9")
		}})
		_, err := queue.Try(t.Context())
		var busy *recipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "pod-9", busy.Front.Owner)
		require.Equal(t, []string{another}, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}
