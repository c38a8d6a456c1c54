// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A granted is what Claim returned, and when.
type granted struct {
	claim *recipes.Claim
	err   error
	at    time.Time
}

// claiming makes a contender join the queue below /l.
func claiming(ctx context.Context, queue *Queue) <-chan granted {
	result := make(chan granted, 1)
	go func() {
		claim, err := queue.Claim(ctx)
		result <- granted{claim, err, time.Now()}
	}()
	return result
}

func requireWaiting(t *testing.T, result <-chan granted, why string) {
	t.Helper()
	synctest.Wait()
	select {
	case g := <-result:
		require.Fail(t, "the claim was decided", "%s: %v", why, g.err)
	default:
	}
}

// A server that is partitioned from its leader answers reads and pings, and can show an empty
// queue to a waiter whose session has expired. The silence ends before 2 T have passed: then the waiter joins again, and the join
// is a proof.
func TestGrantWaitsForFreshProof(t *testing.T) {
	for _, silence := range []time.Duration{testTimeout / 3, testTimeout / 2, testTimeout} {
		faketime.Test(t, func(t *testing.T) {
			s := newOccupied(t)
			client := s.connect(s.options())
			time.Sleep(time.Second)
			result := claiming(t.Context(), newQueue(t, client, nil))
			time.Sleep(untilSteady)
			requireWaiting(t, result, "another contender is ahead")

			silent := s.Intercept(zktest.Rule{When: isHeartbeat, Hold: zktest.ToServer})
			time.Sleep(silence)
			at := s.heartbeats()
			own := newest(client)
			require.Less(t, own.Left(time.Now()), testTimeout/4)
			s.delete(another)
			requireWaiting(t, result, "no contender is ahead, but nothing proves that the session lives")
			time.Sleep(testTimeout * 3 / 4) // it leaves the silent server after 5T/8 at the latest
			requireWaiting(t, result, "nor does anything later")
			require.Same(t, own, newest(client), "it has not joined again")
			require.Greater(t, len(s.heartbeats()), len(at), "it asks for proof")

			silent.Remove()
			g := <-result
			require.NoError(t, g.err)
			require.GreaterOrEqual(t, g.claim.Deadline().Sub(g.at), testTimeout/4)
			proof := s.heartbeats()[len(s.heartbeats())-1]
			require.LessOrEqual(t, g.at.Sub(proof.at), testTimeout/2)
		})
	}
}

func TestGrantOfASessionThatIsGoneIsRefusedAndTheWaiterJoinsAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		var rejoined []error
		opts := s.options()
		opts.Trace = &recipes.Trace{Rejoined: func(e recipes.QueueEvent) { rejoined = append(rejoined, e.Err) }}
		client := s.connect(opts)
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(untilSteady)
		old := client.SessionID()
		s.expire(old)
		time.Sleep(2 * time.Second)
		requireWaiting(t, result, "it is in queue again, behind the same one")
		s.delete(another)
		g := <-result
		require.NoError(t, g.err)
		require.NotEqual(t, old, client.SessionID())
		synctest.Wait()
		require.Len(t, rejoined, 1)
		require.ErrorIs(t, rejoined[0], recipes.ErrSessionExpired)
	})
}

func TestWaiterWatchesOnlyTheOneAhead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		holder := claimed(t, client)
		queue := newQueue(t, client, nil)
		first := claiming(t.Context(), queue)
		synctest.Wait()
		second := claiming(t.Context(), queue)
		synctest.Wait()
		before := len(s.seen(isOp("getChildren", "getChildren2")))
		require.NoError(t, queue.Release(t.Context(), holder))
		g := <-first
		require.NoError(t, g.err)
		requireWaiting(t, second, "it is not its turn")
		require.Len(t, s.seen(isOp("getChildren", "getChildren2")), before, "the former holder has given a hint")
		require.NoError(t, queue.Release(t.Context(), g.claim))
		require.NoError(t, (<-second).err)
	})
}

func TestEventAloneNeverGrants(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		s.create("/l/another-lock-0000000001", "")
		client := s.connect(s.options())
		result := claiming(t.Context(), newQueue(t, client, nil))
		synctest.Wait()
		s.delete("/l/another-lock-0000000001") // the one that is watched gave up
		time.Sleep(time.Minute)
		requireWaiting(t, result, "there is one left")
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

func TestWaiterWhoseOwnNodeIsDeletedJoinsAgainAtTheEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		result := claiming(t.Context(), newQueue(t, client, nil))
		synctest.Wait()
		own := s.queue()[0]
		require.NotContains(t, own, "another")
		s.delete(own)
		time.Sleep(testTimeout / 24)
		synctest.Wait()
		require.Len(t, s.queue(), 2)
		require.NotContains(t, s.queue(), own)
		require.Equal(t, 1, client.OutstandingNodes())
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

// While its deletion is refused, the node stays in the queue, ahead of the waiter.
func TestWaiterWhoseOwnNodeIsOverwrittenJoinsAgainWithoutABusyLoop(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		forbidden := s.Intercept(zktest.Rule{Op: "delete", Fail: zktest.ErrNoAuth})
		s.Intercept(zktest.Rule{Op: "getChildren", Delay: time.Millisecond}) // a loop without a pause would stop the clock
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(untilSteady)
		own := s.queue()[0]
		require.NotContains(t, own, "another")
		listings := func() int { return len(s.seen(isOp("getChildren", "getChildren2"))) }
		before := listings()
		s.set(own, "theirs")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, listings()-before, 5)
		require.Len(t, s.seen(isJoin), 2)
		require.Len(t, s.queue(), 3)
		requireWaiting(t, result, "others are ahead")

		forbidden.Remove()
		s.delete(another)
		g := <-result
		require.NoError(t, g.err)
		require.Equal(t, []string{g.claim.Path()}, s.queue())
		synctest.Wait() // for the answer to the delete
		require.Equal(t, 1, client.OutstandingNodes())
	})
}

func TestWaiterJoinsAgainWhenAWatchIsTheFirstToHearOfTheExpiry(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		s.answerExpired(client.SessionID(), zktest.Rule{When: func(r zktest.Request) bool { return r.Watch }})
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(time.Minute)
		requireWaiting(t, result, "it is in queue again")
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

func TestCancelledWaiterLeavesNoNode(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithCancel(t.Context())
		result := claiming(ctx, newQueue(t, client, nil))
		synctest.Wait()
		require.Len(t, s.queue(), 2)
		cancel()
		require.ErrorIs(t, (<-result).err, context.Canceled)
		require.Len(t, s.queue(), 1, "it is gone before Claim returns")
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestWaiterCancelledWhileDetachedLeavesNoNodeOnceAttached(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithCancel(t.Context())
		result := claiming(ctx, newQueue(t, client, nil))
		synctest.Wait()
		s.detach()
		synctest.Wait()
		began := time.Now()
		cancel()
		require.ErrorIs(t, (<-result).err, context.Canceled)
		require.Equal(t, began, time.Now(), "the call does not wait for an unreachable server")
		require.Equal(t, 1, client.OutstandingNodes())
		s.heal()
		time.Sleep(2 * time.Second)
		require.Len(t, s.queue(), 1)
		require.Zero(t, client.OutstandingNodes())
	})
}

// A caller does not wait for the rest of the work once no server serves the session.
func TestCancelledWaiterOfASilentServerDoesNotWaitForTheReleaseTimeout(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithCancel(t.Context())
		result := claiming(ctx, newQueue(t, client, nil))
		time.Sleep(untilSteady)
		requireWaiting(t, result, "another contender is ahead")
		s.partition()
		cancelled := time.Now()
		cancel()
		g := <-result
		require.ErrorIs(t, g.err, context.Canceled)
		require.LessOrEqual(t, g.at.Sub(cancelled), testTimeout/3)
		s.heal()
		time.Sleep(testTimeout)
		require.Len(t, s.queue(), 1, "and is done all the same")
	})
}
