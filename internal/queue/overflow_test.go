// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestStuckCounterStillExcludesAndStillServes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", string(protocol.ParentData(0)))
		require.NoError(t, s.SetCounter("/l", math.MaxInt32-3))
		holders, served := 0, 0
		var tokens []int64
		var wg sync.WaitGroup
		for range 4 {
			queue := newQueue(t, s.connect(s.options()), nil)
			for range 5 {
				wg.Go(func() {
					claim, err := queue.Claim(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					holders++
					if holders > 1 {
						t.Error("two claims overlap")
					}
					tokens = append(tokens, int64(claim.Token()))
					time.Sleep(time.Second)
					holders--
					served++
					if err := queue.Release(t.Context(), claim); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, 20, served)
		require.True(t, slices.IsSorted(tokens), "%v", tokens)
		require.Len(t, slices.Compact(tokens), 20)
		require.Empty(t, s.queue())
	})
}

// The first plain name that is given such a number has to be given up again.
func TestLateNumberNeverStandsAloneInTheNameOfAContender(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"answered": 0, "reply lost": zktest.ToClient} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			parent := s.create("/l", string(protocol.ParentData(0)))
			require.NoError(t, s.SetCounter("/l", protocol.OverflowSequence-2))
			q := newQueue(t, s.connect(s.options()), nil)
			first, err := q.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: v})
				waiting = append(waiting, claiming(t.Context(), q))
				time.Sleep(testTimeout / 2)
			}
			require.Len(t, s.queue(), 4, name)
			require.NoError(t, q.Release(t.Context(), first))
			for i, result := range waiting {
				g := <-result
				require.NoError(t, g.err)
				plain := fmt.Sprintf("/l/%s%010d", protocol.NamePrefix(parent, "", protocol.Exclusive), memberOf(g.claim).Sequence)
				require.Equal(t, i > 0, memberOf(g.claim).Overflowed(), name)
				require.Equal(t, i > 0, g.claim.Path() != plain, "%s: %s", name, g.claim.Path())
				require.NoError(t, q.Release(t.Context(), g.claim))
			}
			require.Empty(t, s.queue(), name)
		})
	}
}

func TestLostReplyOfCreateAtTheStuckCounterIsFoundAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", string(protocol.ParentData(0)))
		require.NoError(t, s.SetCounter("/l", math.MaxInt32))
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		for range 3 {
			s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{claim.Path()}, s.queue())
			require.Equal(t, 1, client.OutstandingNodes())
			require.NoError(t, queue.Release(t.Context(), claim))
			require.Empty(t, s.queue())
		}
	})
}

// Each waiter of a client would otherwise read the node of each other one.
func TestWaitersOfAClientReadTheOrderOfAStuckCounterTogether(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const contenders = 60
		s := newEnsemble(t)
		s.create("/l", string(protocol.ParentData(0)))
		require.NoError(t, s.SetCounter("/l", math.MaxInt32))
		first := newQueue(t, s.connect(s.options()), nil)
		for range contenders {
			claiming(t.Context(), first)
		}
		time.Sleep(testTimeout)
		require.Len(t, s.queue(), contenders)
		client := s.connect(s.options())
		reads := s.Intercept(zktest.Rule{Op: "getData"})
		for range contenders {
			claiming(t.Context(), newQueue(t, client, nil))
		}
		time.Sleep(testTimeout)
		require.Len(t, s.queue(), 2*contenders)
		require.Less(t, reads.Fired(), 10*contenders)
	})
}

func TestOrderOfAStuckCounterIsReadInAFewRoundTrips(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const contenders, delay = 60, 10 * time.Millisecond
		s := newEnsemble(t)
		s.create("/l", string(protocol.ParentData(0)))
		require.NoError(t, s.SetCounter("/l", math.MaxInt32))
		q := newQueue(t, s.connect(s.options()), nil)
		first, err := q.Claim(t.Context())
		require.NoError(t, err)
		for range contenders - 1 {
			claiming(t.Context(), q)
		}
		time.Sleep(testTimeout)
		require.Len(t, s.queue(), contenders)

		link := s.Link()
		opts := s.options()
		opts.Dial = link.Dial
		other := newQueue(t, s.connect(opts), nil)
		link.Delay(delay)
		began := time.Now()
		front, err := other.First(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Path(), "/l/"+front.Name)
		require.Less(t, time.Since(began), 20*delay, "a listing, the czxids of %d names, and a read", contenders)
	})
}
