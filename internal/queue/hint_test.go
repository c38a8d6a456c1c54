// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// listings returns how many requests have listed the children of a node.
func (s *ensemble) listings() int { return len(s.seen(isOp("getChildren", "getChildren2"))) }

// A chain is a holder and two waiters, each with a client.
type chain struct {
	holder   *recipes.Claim
	queues   []*Queue // the holder's first
	waiters  []<-chan granted
	handed   atomic.Int32 // hand-overs
	listings atomic.Int32 // of waiters, since they began to wait
}

func chained(t *testing.T, s *ensemble) *chain {
	t.Helper()
	c := &chain{}
	for range 3 {
		opts := s.options()
		opts.Trace = &recipes.Trace{HandedOver: func(e recipes.QueueEvent) {
			c.handed.Add(1)
			c.listings.Add(int32(e.Listings))
		}}
		c.queues = append(c.queues, newQueue(t, s.connect(opts), nil))
	}
	var err error
	c.holder, err = c.queues[0].Claim(t.Context())
	require.NoError(t, err)
	for _, q := range c.queues[1:] {
		c.waiters = append(c.waiters, claiming(t.Context(), q))
		synctest.Wait()
	}
	return c
}

func TestHandOversCostNoListing(t *testing.T) {
	for _, wait := range []time.Duration{0, testTimeout / 8, 3 * testTimeout} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			c := chained(t, s)
			time.Sleep(wait)
			before := s.listings()
			holder := c.holder
			for i, waiter := range c.waiters {
				require.NoError(t, c.queues[i].Release(t.Context(), holder))
				g := <-waiter
				require.NoError(t, g.err)
				holder = g.claim
			}
			require.Equal(t, before, s.listings())
			synctest.Wait()
			require.EqualValues(t, 2, c.handed.Load())
			require.Zero(t, c.listings.Load())
		})
	}
}

// A waiter that gives up was not the first, and the one ahead of it can hold the claim.
func TestWaiterBehindOneThatGivesUpLists(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		queue := newQueue(t, s.connect(s.options()), nil)
		holder, err := queue.Claim(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := claiming(ctx, queue)
		synctest.Wait()
		second := claiming(t.Context(), newQueue(t, s.connect(s.options()), nil))
		synctest.Wait()
		before := s.listings()
		cancel()
		require.Error(t, (<-first).err)
		requireWaiting(t, second, "there is a holder")
		require.Equal(t, before+1, s.listings())
		require.NoError(t, queue.Release(t.Context(), holder))
		require.NoError(t, (<-second).err)
		require.Equal(t, before+1, s.listings(), "one contender was ahead, and it is gone")
	})
}

// waited returns a claim of the queue that has waited for another client's.
func waited(t *testing.T, s *ensemble, queue *Queue) *recipes.Claim {
	t.Helper()
	other := newQueue(t, s.connect(s.options()), nil)
	holder, err := other.Claim(t.Context())
	require.NoError(t, err)
	result := claiming(t.Context(), queue)
	synctest.Wait()
	require.NoError(t, other.Release(t.Context(), holder))
	g := <-result
	require.NoError(t, g.err)
	return g.claim
}

func TestUncontendedReleaseIsOneDelete(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		queue := newQueue(t, s.connect(s.options()), nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), claim))
		require.Len(t, s.seen(isOp("delete")), 1)
		require.Equal(t, string(protocol.ParentData(0)), s.data("/l"))
	})
}

func TestJoinsRepeatTheLastHintOfTheirClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		queue := newQueue(t, s.connect(s.options()), nil)
		claim := waited(t, s, queue)
		require.NoError(t, queue.Release(t.Context(), claim))
		hint := string(protocol.ParentData(int64(claim.Token())))
		require.Equal(t, hint, s.data("/l"))
		_, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.Equal(t, hint, s.data("/l"))
	})
}

// An operator deletes the node of a waiter, whose predecessor then leaves: another contender has been granted the claim.
func TestHintDoesNotGrantAWaiterWhoseNodeIsDeleted(t *testing.T) {
	for _, wait := range []time.Duration{0, testTimeout / 8, 3 * testTimeout} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			c := chained(t, s)
			time.Sleep(wait)
			waiting := s.queue()
			own := waiting[slices.IndexFunc(waiting, func(path string) bool { return strings.HasSuffix(path, "-0000000001") })]
			events := s.Intercept(zktest.Rule{Op: "notification", Hold: zktest.ToClient})
			s.delete(own)
			require.NoError(t, c.queues[0].Release(t.Context(), c.holder))
			synctest.Wait()
			events.Remove()
			third := <-c.waiters[1]
			require.NoError(t, third.err)
			synctest.Wait()
			requireWaiting(t, c.waiters[0], "the one behind it has the claim")
			require.NoError(t, third.claim.Err())
			require.NoError(t, c.queues[2].Release(t.Context(), third.claim))
			require.NoError(t, (<-c.waiters[0]).err)
		})
	}
}

func TestReleaseDeletesTheNodeWhereTheParentMayNotBeWritten(t *testing.T) {
	for name, refusal := range map[string]error{"no right": zktest.ErrNoAuth, "quota": zktest.ErrQuotaExceeded} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			queue := newQueue(t, s.connect(s.options()), nil)
			for range 3 {
				claim := waited(t, s, queue)
				rule := s.Intercept(zktest.Rule{Op: "setData", Path: "/l", Fail: refusal})
				require.NoError(t, queue.Release(t.Context(), claim), name)
				require.Empty(t, s.queue())
				rule.Remove()
			}
			releases := s.seen(func(r zktest.Request) bool { return r.Op == "multi" && r.Ops[0].Op == "delete" })
			if errors.Is(refusal, zktest.ErrNoAuth) {
				require.Len(t, releases, 1, "it does not try again what the ACL forbids")
			} else {
				require.Len(t, releases, 3)
			}
		})
	}
}

// Each release raises the parent's version after the listing. It is no other try that has won a race.
func TestTryThatFindsEachListedHolderGoneIsGrantedTheClaimAfterTheLastOne(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		holding := newQueue(t, s.connect(s.options()), nil)
		trying := newQueue(t, s.connect(s.options()), nil)
		claim, err := holding.Claim(t.Context())
		require.NoError(t, err)
		left := MaxLostRaces
		changed := make(chan error, 1)
		s.Intercept(zktest.Rule{Op: "getData", Below: "/l", Times: MaxLostRaces + 1, Before: func(zktest.Request) {
			go func() {
				err := holding.Release(t.Context(), claim)
				if left--; err == nil && left >= 0 {
					claim, err = holding.Claim(t.Context())
				}
				changed <- err
			}()
			time.Sleep(time.Second)
			require.NoError(t, <-changed)
		}})
		_, err = trying.Try(t.Context())
		require.NoError(t, err)
		require.Negative(t, left)
	})
}
