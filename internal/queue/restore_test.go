// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
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
		queue := s.used(5000)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim, err := queue.Claim(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
	})
}

// The restored parent gives a number again, and the name of a node that did not exist in the backup goes to another contender.
func TestWaiterThatOutlivesARestoreDoesNotTakeTheNodeOfAnotherContenderForItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		gone  bool
		waits time.Duration
	}{
		"behind another": {false, testTimeout / 12},
		"at the front":   {true, testTimeout / 12},
		"behind another, its node is not watched": {false, testTimeout / 48},
		"at the front, its node is not watched":   {true, testTimeout / 48},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // the events come in any order
				faketime.Test(t, func(t *testing.T) {
					s := newOccupied(t)
					client := s.connect(s.options())
					queue := newQueue(t, client, nil)
					result := claiming(t.Context(), queue)
					time.Sleep(c.waits)
					s.detach()
					own := s.replaced()
					if c.gone {
						s.delete(another)
					}
					s.heal()
					time.Sleep(testTimeout / 12)
					if !c.gone {
						s.delete(another)
					}
					time.Sleep(testTimeout)
					requireWaiting(t, result, "the other contender is ahead")
					require.Contains(t, s.queue(), own)
					require.Len(t, s.queue(), 2)

					s.delete(own)
					g := <-result
					require.NoError(t, g.err)
					require.NoError(t, queue.Release(t.Context(), g.claim))
					require.Zero(t, client.OutstandingNodes())
				})
			}
		})
	}
}

func TestHolderThatOutlivesARestoreLosesItsClaimAndLeavesTheNodeOfAnotherContender(t *testing.T) {
	for name, waits := range map[string]time.Duration{"its node is not watched": testTimeout / 48, "its node is watched": testTimeout / 12} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				time.AfterFunc(waits, func() { s.delete(another) })
				claim, err := queue.Claim(t.Context())
				require.NoError(t, err)
				s.detach()
				own := s.replaced()
				require.Equal(t, claim.Path(), own)
				s.heal()
				time.Sleep(testTimeout / 12)
				require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
				require.ErrorIs(t, queue.Release(t.Context(), claim), recipes.ErrLost)
				time.Sleep(testTimeout)
				require.Equal(t, []string{own}, s.queue())
				require.Zero(t, client.OutstandingNodes())
			})
		})
	}
}

// used returns the queue /l of a client that has seen the number highest before a restore.
func (s *ensemble) used(highest int32) *Queue {
	s.t.Helper()
	client := s.connect(s.options())
	queue := newQueue(s.t, client, nil)
	claim, err := queue.Claim(s.t.Context())
	require.NoError(s.t, err)
	require.NoError(s.t, queue.Release(s.t.Context(), claim))
	_, detached := newest(client).Served()
	queue.recordNumber(detached, s.czxid("/l"), highest, false)
	return queue
}

// replaced replaces the last node of the queue /l by one of another contender, with the same name.
func (s *ensemble) replaced() (path string) {
	s.t.Helper()
	path = slices.Max(slices.DeleteFunc(s.queue(), func(path string) bool { return path == another }))
	s.delete(path)
	_, err := s.connect(withDial(s.options(), s.Dial)).Conn().Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
	return path
}

// The counter was restored to a lower number, and has passed the highest number from before the restore when the search begins.
func TestLostReplyOfCreateIsFoundAgainThoughTheRestoredNumbersHavePassedTheFormerOnes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		queue := s.used(100)
		s.link.Reset() // the restore
		time.Sleep(testTimeout / 12)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		search := s.Intercept(zktest.Rule{Op: "delete", Below: "/l", Times: 1, Before: func(zktest.Request) { _ = s.SetCounter("/l", 200) }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim, err := queue.Claim(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, search.Fired())
		require.Less(t, memberOf(claim).Sequence, int32(100))
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
