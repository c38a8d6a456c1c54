// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newRestored returns an ensemble that has lost everything but /l, with its czxid, and a client that used queue before that. The numbers of
// /l begin anew.
func newRestored(t *testing.T, opts func(*ensemble) *recipes.Options) (s *ensemble, client *recipes.Client, queue *Queue) {
	t.Helper()
	s = startEnsemble(t, zktest.Options{InMemory: true})
	czxid := s.create("/l", "")
	client = s.connect(opts(s))
	queue = newQueue(t, client, nil)
	for range 5 {
		first := claimed(t, client)
		result := claiming(t.Context(), queue)
		synctest.Wait()
		require.NoError(t, queue.Release(t.Context(), first))
		second := <-result
		require.NoError(t, second.err)
		require.NoError(t, queue.Release(t.Context(), second.claim)) // its contender has waited, and leaves a hint
	}
	session := client.SessionID()
	require.NoError(t, s.Server(1).Wipe())
	require.NoError(t, s.WaitServing(t.Context()))
	require.Equal(t, czxid, s.create("/l", ""))
	for client.SessionID() == session {
		time.Sleep(time.Millisecond)
	}
	return s, client, queue
}

func TestLostReplyOfCreateIsFoundAgainAfterNumbersAreRestored(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		found := new([]recovery)
		s, client, queue := newRestored(t, func(s *ensemble) (opts *recipes.Options) {
			opts, found = recovering(s)
			return opts
		})
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
		require.Equal(t, 1, client.OutstandingNodes())
		require.NoError(t, queue.Release(t.Context(), claim))
		require.Empty(t, s.queue())
		synctest.Wait()
		require.Equal(t, []recovery{{found: true}}, *found)
	})
}

// A session that was in the backup goes on after the restore, if the leader of a later epoch serves it.
func TestLostReplyOfCreateIsFoundAgainInASessionThatOutlivesARestore(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), claim))
		queue.recordNumber(client.SessionID(), s.czxid("/l"), 5000, false) // before the restore
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim, err = queue.Claim(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
	})
}

func TestHintOfAnEarlierSessionIsNotRepeatedInTheNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _, queue := newRestored(t, (*ensemble).options)
		_, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.Equal(t, string(protocol.ParentData(0)), s.data("/l"), "a restored ensemble can have another node with that czxid")
	})
}
