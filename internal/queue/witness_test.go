// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"strings"
	"sync"
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

func TestHandOverAmongClientsWithOneWaiterEachCostsFiveRequestsAndNoListing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.link.Delay(time.Millisecond)
		const clients, cycles = 8, 20
		began, warm := make(chan struct{}), sync.WaitGroup{}
		var running sync.WaitGroup
		for range clients {
			queue := newQueue(t, s.connect(s.options()), nil)
			warm.Add(1)
			running.Go(func() {
				for i := range 3 + cycles {
					if i == 3 {
						warm.Done()
						<-began
					}
					claim, err := queue.Claim(t.Context())
					if err == nil {
						time.Sleep(20 * time.Millisecond)
						err = queue.Release(t.Context(), claim)
					}
					if err != nil {
						t.Errorf("cycle: %v", err)
						return
					}
				}
			})
		}
		warm.Wait()
		before, listed := len(s.seen(isOrdinary)), s.listings()
		close(began)
		running.Wait()
		requests := len(s.seen(isOrdinary)) - before
		t.Logf("%d requests and %d listings in %d hand-overs", requests, s.listings()-listed, clients*cycles)
		// All begin again at the same time, so that the first joins have no witness.
		require.LessOrEqual(t, s.listings()-listed, 2*clients)
		require.LessOrEqual(t, requests, clients*cycles*5+4*clients)
	})
}

// isOrdinary reports whether a request is neither of the session nor one of its proofs.
func isOrdinary(r zktest.Request) bool {
	return !isHeartbeat(r) && r.Op != "ping" && r.Op != "connect" && r.Op != "sync" && r.Op != "notification"
}

// Another client's node may leave at any time, which proves nothing about this client or the parent.
func TestMissingWitnessOfAnotherClientLosesNoClaimAndForgetsNoParent(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		lost := 0
		opts := s.options()
		opts.Trace = &recipes.Trace{Lost: func(recipes.QueueEvent) { lost++ }}
		client := s.connect(opts)
		queue := newQueue(t, client, nil)
		elsewhere, err := New(client, "/elsewhere", nil)
		require.NoError(t, err)
		_, err = elsewhere.Claim(t.Context())
		require.NoError(t, err)
		other := newQueue(t, s.connect(s.options()), nil)
		holder, err := other.Claim(t.Context())
		require.NoError(t, err)
		result := claiming(t.Context(), queue)
		synctest.Wait()
		require.NoError(t, other.Release(t.Context(), holder))
		g := <-result
		require.NoError(t, g.err)
		require.NoError(t, queue.Release(t.Context(), g.claim))
		queue.witnesses.set(queue.parent, protocol.NamePrefix(queue.parent, "", protocol.Exclusive)+protocol.SequenceSuffix(0)) // which has left
		before := len(s.seen(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/l" }))
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(claim.Path(), "-"), "the name has a nonce: %s", claim.Path())
		require.Zero(t, lost)
		require.Len(t, s.seen(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/l" }), before)
	})
}

func TestWitnessIsANameOfThisLibraryAndOfThatLifeOfTheParent(t *testing.T) {
	tag := strconv.FormatInt(100, 36)
	lst := NewListing([]string{
		tag + "-lock-0000000001", tag + "-n-lock-0000000002", "_c_guid-lock-0000000003", "other-lock-0000000004", tag + "-lock-2147483647", tag + "-x",
	}, &zk.Stat{Czxid: 100})
	var w witness
	w.see(lst, protocol.Member{Name: "another"})
	require.Equal(t, tag+"-n-lock-0000000002", w.of(100))
	w.see(lst, protocol.Member{Name: tag + "-n-lock-0000000002"})
	require.Equal(t, tag+"-lock-0000000001", w.of(100), "the own node leaves before the next join")
	require.Empty(t, w.of(101))
	w.forget("another")
	require.NotEmpty(t, w.of(100))
	w.forget(tag + "-lock-0000000001")
	require.Empty(t, w.of(100))
}

func TestLastNumberIsThatOfTheChildThatWasCreatedLast(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		queue := newQueue(t, s.connect(s.options()), nil)
		for range 5 {
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			_, stat, err := s.Get("/l")
			require.NoError(t, err)
			require.Equal(t, memberOf(claim).Sequence, protocol.LastNumber(stat.Cversion, stat.NumChildren))
			require.NoError(t, queue.Release(t.Context(), claim))
		}
	})
}
