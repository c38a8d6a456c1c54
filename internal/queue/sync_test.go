// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lone follower answers pings and reads, while its leader lets the session expire.
func TestWaiterLeavesAFollowerThatHasLostItsLeaderAndKeepsItsPlace(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client, err := recipes.Connect(t.Context(), s.Addrs()[1:], s.options())
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(untilSteady)
		place, id, bad := s.queue(), client.SessionID(), newest(client).Server()
		require.NoError(t, s.Server(1+slices.Index(s.Addrs(), bad)).Isolate(context.Background()))
		time.Sleep(10 * testTimeout)
		require.Equal(t, place, s.queue())
		require.Equal(t, id, client.SessionID())
		require.NotEqual(t, bad, newest(client).Server())
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

func TestHeartbeatsOfAWaiterTakeThePlaceOfSyncsThatAServerRefuses(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		s.Intercept(zktest.Rule{Op: "sync", Fail: zktest.ErrNoAuth})
		beats := 0
		opts := s.options()
		opts.Trace = &recipes.Trace{Heartbeat: func(recipes.SessionEvent) { beats++ }}
		client := s.connect(opts)
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(4 * testTimeout)
		synctest.Wait()
		require.Len(t, s.seen(isOp("sync")), 1)
		require.InDelta(t, 12, len(s.heartbeats()), 1)
		require.Len(t, s.heartbeats(), beats, "they are counted")
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

// Servers that take requests and answer none keep the session alive. It matters to others only if the waiter is the next.
func TestWaiterOfServersThatAnswerNothingLeavesAfterTheTimeoutIfItMayBeTheNextAndAfterTwiceThatElse(t *testing.T) {
	for name, next := range map[string]bool{"next": true, "behind another": false} {
		faketime.Test(t, func(t *testing.T) {
			s := newOccupied(t)
			client := s.connect(s.options())
			_ = claiming(t.Context(), newQueue(t, client, nil))
			time.Sleep(untilSteady)
			own := newest(client)
			var held *zktest.Interceptor
			if next {
				held = s.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool { return r.Op != "ping" && r.Op != "connect" }})
				s.delete(another) // the event comes, and no answer
			} else {
				s.detach()
				held = s.Intercept(zktest.Rule{Hold: zktest.ToServer})
			}
			began := time.Now()
			<-own.Context().Done()
			require.ErrorIs(t, context.Cause(own.Context()), session.ErrAbandoned, name)
			least := testTimeout
			if !next {
				least = 2 * testTimeout
			}
			require.GreaterOrEqual(t, time.Since(began), least*9/10, name)
			require.LessOrEqual(t, time.Since(began), least*3/2, name)
			held.Remove()
		})
	}
}

// A lease ahead is written again by each renewal.
func TestWaiterWritesNothingWhileItsPredecessorIsWritten(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		result := claiming(t.Context(), newQueue(t, s.connect(s.options()), nil))
		for range 5 {
			time.Sleep(testTimeout)
			s.set(another, "renewed")
		}
		synctest.Wait()
		require.Empty(t, s.heartbeats())
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}
