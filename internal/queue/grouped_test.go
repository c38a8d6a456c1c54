// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A rack is the queues of one client, one below each path.
type rack struct {
	*ensemble
	client *recipes.Client
	queues []*Queue
}

// newRack returns n queues whose parents the client knows.
func newRack(t *testing.T, n int) *rack {
	t.Helper()
	s := newEnsemble(t)
	r := &rack{ensemble: s, client: s.connect(s.options())}
	for i := range n {
		q, err := New(r.client, fmt.Sprintf("/q/%d", i), nil)
		require.NoError(t, err)
		c, err := q.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, q.Release(t.Context(), c))
		r.queues = append(r.queues, q)
	}
	time.Sleep(testTimeout / 100)
	return r
}

// A call is a call of a Claim that goes on.
type call struct {
	claim *recipes.Claim
	err   error
	done  chan struct{}
}

// claims has each queue claim at the same time, and waits until all of them are blocked or done.
func (r *rack) claims(ctx context.Context, queues ...*Queue) (calls []*call) {
	for _, q := range queues {
		c := &call{done: make(chan struct{})}
		calls = append(calls, c)
		go func() {
			defer close(c.done)
			c.claim, c.err = q.Claim(ctx)
		}()
	}
	synctest.Wait()
	return calls
}

// busy holds the answer to a join of the first queue, so that the writes of other callers wait. release sends it.
func (r *rack) busy(t *testing.T) (first *call, release func()) {
	t.Helper()
	rule := r.Intercept(zktest.Rule{When: func(q zktest.Request) bool { return isJoin(q) && strings.HasPrefix(q.Path, "/q/0") }, Times: 1, Hold: zktest.ToClient})
	first = r.claims(t.Context(), r.queues[0])[0]
	return first, rule.Release
}

// transactions returns the transactions that were received since an instant, but for those of heartbeats.
func (s *ensemble) transactions(since time.Time) []request {
	return slices.DeleteFunc(s.seen(isOp("multi")), func(r request) bool { return r.at.Before(since) || r.Ops[0].Op == "check" && len(r.Ops) == 1 })
}

func requireGranted(t *testing.T, calls ...*call) {
	t.Helper()
	for _, c := range calls {
		<-c.done
		require.NoError(t, c.err)
		require.NoError(t, c.claim.Err())
	}
}

func TestConcurrentWritesOfASessionShareATransaction(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 17)
		began := time.Now()
		first, release := r.busy(t)
		calls := r.claims(t.Context(), r.queues[1:]...)
		require.Len(t, r.transactions(began), 1, "they wait for the answer to the first")
		release()
		requireGranted(t, append(calls, first)...)
		sent := r.transactions(began)
		require.Len(t, sent, 2)
		require.Len(t, sent[1].Ops, 2*16)
		for _, c := range calls[1:] {
			require.Equal(t, calls[0].claim.Token(), c.claim.Token(), "it is the zxid of the transaction")
		}

		// So do releases, the checks of holders, and joins with them.
		first, release = r.busyAgain(t, first)
		var all sync.WaitGroup
		for i, c := range calls {
			all.Go(func() {
				if i%2 == 0 {
					require.NoError(t, c.claim.Check(t.Context()))
				}
				require.NoError(t, r.queues[1+i].Release(t.Context(), c.claim))
			})
		}
		synctest.Wait()
		before := len(r.transactions(began))
		release()
		all.Wait()
		requireGranted(t, first)
		sent = r.transactions(began)[before:]
		require.Len(t, sent[0].Ops, 16, "eight checks and eight releases")
		require.LessOrEqual(t, len(sent), 3, "the next release, then the others")
	})
}

// busyAgain is busy after the claim of the first queue was released.
func (r *rack) busyAgain(t *testing.T, first *call) (again *call, release func()) {
	t.Helper()
	require.NoError(t, r.queues[0].Release(t.Context(), first.claim))
	return r.busy(t)
}

func TestIdleSessionSendsAWriteAtOnce(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 2)
		r.link.Delay(testTimeout / 100)
		began := time.Now()
		requireGranted(t, r.claims(t.Context(), r.queues[0])...)
		require.Equal(t, 2*testTimeout/100, time.Since(began))
	})
}

func TestJoinsOfOneQueueDoNotWaitForEachOther(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 1)
		_, release := r.busy(t)
		began := time.Now()
		r.claims(t.Context(), slices.Repeat(r.queues, 5)...)
		require.Len(t, r.transactions(began), 6)
		release()
	})
}

func TestRefusedWriteIsSentAloneAndTheOthersAreCarriedOut(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 8)
		refusal := r.Intercept(zktest.Rule{Op: "create", Below: "/q/3", Fail: zktest.ErrNoAuth})
		for round := range 2 {
			time.Sleep(testTimeout / 100)
			began := time.Now()
			first, release := r.busy(t)
			calls := r.claims(t.Context(), r.queues[1:]...)
			refused := calls[2]
			calls = slices.Delete(calls, 2, 3)
			release()
			requireGranted(t, append(calls, first)...)
			<-refused.done
			require.ErrorIs(t, refused.err, zk.ErrNoAuth)
			require.ErrorContains(t, refused.err, "/q/3")
			require.Nil(t, refused.claim)
			sent := r.transactions(began)
			if round == 0 {
				require.Len(t, sent, 1+1+7, "the group is refused, and each of its writes is sent alone")
			} else {
				require.Len(t, sent, 1+1+1, "what was refused stays alone")
				require.Len(t, slices.MaxFunc(sent, func(a, b request) int { return len(a.Ops) - len(b.Ops) }).Ops, 2*6)
			}
			for i, c := range append([]*call{first}, calls...) {
				q := slices.Delete(slices.Clone(r.queues), 3, 4)[i]
				require.NoError(t, q.Release(t.Context(), c.claim))
			}
		}
		refusal.Remove()
		allowed := r.claims(t.Context(), r.queues[3])[0]
		requireGranted(t, allowed)
		require.NoError(t, r.queues[3].Release(t.Context(), allowed.claim))
		time.Sleep(testTimeout / 100)
		began := time.Now()
		_, release := r.busy(t)
		calls := r.claims(t.Context(), r.queues[3], r.queues[2])
		release()
		requireGranted(t, calls...)
		require.Len(t, r.transactions(began), 2, "its writes are grouped again")
	})
}

// The answer to a refused group names one queue. The answers to the writes that are then sent alone name the others.
func TestAllQueuesThatAreRefusedStayAloneAfterOneRefusedGroup(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 16)
		for _, refused := range r.queues[1:8] {
			r.Intercept(zktest.Rule{Op: "create", Below: refused.path, Fail: zktest.ErrNoAuth})
		}
		for round := range 2 {
			time.Sleep(testTimeout / 100)
			first, release := r.busy(t)
			began := time.Now()
			calls := r.claims(t.Context(), r.queues[1:]...)
			release()
			var granted []*call
			for _, c := range append(calls, first) {
				if <-c.done; c.err == nil {
					granted = append(granted, c)
				}
			}
			require.Len(t, granted, 1+8)
			if round == 1 {
				groups := slices.DeleteFunc(r.transactions(began), func(r request) bool { return len(r.Ops) <= maxOperations })
				require.Len(t, groups, 1)
				require.Len(t, groups[0].Ops, 2*8)
			}
			for _, c := range granted {
				i := slices.IndexFunc(r.queues, func(q *Queue) bool { return strings.HasPrefix(c.claim.Path(), q.path+"/") })
				require.NoError(t, r.queues[i].Release(t.Context(), c.claim))
			}
		}
	})
}

// The refusal comes after its context has ended: sent alone, its write could keep the caller for as long again.
func TestWriteOfARefusedGroupIsNotSentAfterItsContext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 4)
		r.Intercept(zktest.Rule{Op: "create", Below: "/q/3", Fail: zktest.ErrNoAuth})
		first, release := r.busy(t)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout/24)
		defer cancel()
		calls := r.claims(ctx, r.queues[1:]...)
		group := r.Intercept(zktest.Rule{When: func(q zktest.Request) bool { return q.Op == "multi" && len(q.Ops) > 3 }, Hold: zktest.ToClient})
		release()
		requireGranted(t, first)
		time.Sleep(testTimeout / 12)
		began := time.Now()
		group.Release()
		for _, c := range calls {
			<-c.done
			require.ErrorIs(t, c.err, context.DeadlineExceeded)
			require.NotErrorIs(t, c.err, recipes.ErrUncertain)
		}
		require.Empty(t, r.transactions(began))
		require.Equal(t, 1, r.client.OutstandingNodes())
	})
}

func TestReleaseBehindAGroupReturnsWithinItsTimeout(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 2)
		const limit = testTimeout * 3 / 10
		q, err := New(r.client, "/q/1", &Options{ReleaseTimeout: limit})
		require.NoError(t, err)
		holder := r.claims(t.Context(), q)[0]
		requireGranted(t, holder)
		time.Sleep(testTimeout / 100)
		_, release := r.busy(t)
		began := time.Now()
		r.Intercept(zktest.Rule{Op: "delete", Below: "/q/1", Hold: zktest.ToClient})
		time.AfterFunc(testTimeout/6, release)
		require.ErrorIs(t, q.Release(t.Context(), holder.claim), recipes.ErrUncertain)
		require.LessOrEqual(t, time.Since(began), limit)
	})
}

func TestGroupThatAServerThrottlesIsSentAgainAsAGroup(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 17)
		r.link.Delay(testTimeout / 50)
		throttled := r.Intercept(zktest.Rule{When: func(q zktest.Request) bool { return q.Op == "multi" && len(q.Ops) > 3 }, Times: 1, Fail: zktest.ErrThrottled})
		began := time.Now()
		first, release := r.busy(t)
		calls := r.claims(t.Context(), r.queues[1:]...)
		time.Sleep(testTimeout / 50)
		release()
		requireGranted(t, append(calls, first)...)
		require.Equal(t, 1, throttled.Fired())
		require.Len(t, r.transactions(began), 1+1+2, "after its pause, the first caller finds no group in flight")
	})
}

// A heartbeat queues behind them.
func TestOperationsInFlightAreBounded(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 1000)
		const roundTrip = testTimeout / 50
		r.link.Delay(roundTrip / 2)
		began := time.Now()
		requireGranted(t, r.claims(t.Context(), r.queues...)...)
		at := map[time.Duration]int{}
		for _, sent := range r.transactions(began) {
			at[sent.at.Sub(began).Round(roundTrip/2)] += len(sent.Ops)
		}
		for _, ops := range at {
			require.LessOrEqual(t, ops, 2*(session.MaxInFlight+64/2))
		}
	})
}

func TestUnknownOutcomeOfAGroupIsResolvedForEachWrite(t *testing.T) {
	for name, lost := range map[string]zktest.Direction{"not carried out": zktest.ToServer, "carried out": zktest.ToClient} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				r := newRack(t, 8)
				first, release := r.busy(t)
				r.Intercept(zktest.Rule{When: func(q zktest.Request) bool { return q.Op == "multi" && len(q.Ops) > 3 }, Times: 1, Lose: lost})
				calls := r.claims(t.Context(), r.queues[1:]...)
				release()
				requireGranted(t, append(calls, first)...)
				require.Equal(t, 8, r.client.OutstandingNodes())
				tokens := map[string]fencing.Token{}
				for _, c := range calls {
					tokens[c.claim.Path()] = c.claim.Token()
				}
				require.Len(t, tokens, 7)
				for path, token := range tokens {
					require.EqualValues(t, r.czxid(path), token)
				}
			})
		})
	}
}

func TestWriteThatWaitsForAGroupEndsWithItsContextAndCreatesNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 3)
		first, release := r.busy(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := r.claims(ctx, r.queues[1])[0]
		stays := r.claims(t.Context(), r.queues[2])[0]
		cancel()
		<-left.done // also while the group is in flight
		require.ErrorIs(t, left.err, context.Canceled)
		release()
		requireGranted(t, first, stays)
		require.Equal(t, 2, r.client.OutstandingNodes())
		children, err := r.Children("/q/1")
		require.NoError(t, err)
		require.Empty(t, children)
	})
}

// The caller that would send the next group leaves while it waits for a server.
func TestAnotherCallerSendsTheGroupOfOneThatLeaves(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 3)
		r.unreachable.Store(true)
		r.link.Reset()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout/100)
		defer cancel()
		left := r.claims(ctx, r.queues[0])[0]
		stay := r.claims(t.Context(), r.queues[1:]...)
		<-left.done
		require.ErrorIs(t, left.err, context.DeadlineExceeded)
		r.unreachable.Store(false)
		requireGranted(t, stay...)
	})
}

func TestWritesThatWaitForAGroupEndWithTheSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 5)
		_, _ = r.busy(t)
		calls := r.claims(t.Context(), r.queues[1:]...)
		require.NoError(t, r.Expire(t.Context(), newest(r.client).ID()))
		// Another session follows, in which they claim.
		requireGranted(t, calls...)
	})
}

func TestGroupHasALimitedSize(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const queues = 70
		r := newRack(t, queues)
		began := time.Now()
		first, release := r.busy(t)
		calls := r.claims(t.Context(), r.queues[1:]...)
		release()
		requireGranted(t, append(calls, first)...)
		ops := 0
		for _, sent := range r.transactions(began) {
			require.LessOrEqual(t, len(sent.Ops), 64)
			ops += len(sent.Ops)
		}
		require.Equal(t, 2*queues, ops)
		require.Len(t, r.transactions(began), 1+3, "64 operations, 64, and the rest")
	})
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		opts.Owner = strings.Repeat("o", 4096)
		r := &rack{ensemble: s, client: s.connect(opts)}
		for i := range 30 {
			q, err := New(r.client, fmt.Sprintf("/q/%d", i), nil)
			require.NoError(t, err)
			r.queues = append(r.queues, q)
		}
		requireGranted(t, r.claims(t.Context(), r.queues[1:]...)...)
		for _, sent := range s.seen(isOp("multi")) {
			require.Less(t, sent.Size, 64<<10)
		}
	})
}

func TestCommitDoesNotWaitForAGroup(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 3)
		holder := r.claims(t.Context(), r.queues[2])[0]
		requireGranted(t, holder)
		time.Sleep(testTimeout / 100)
		began := time.Now()
		first, release := r.busy(t)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := holder.claim.Commit(t.Context(), &zk.SetDataRequest{Path: "/q", Version: -1})
			require.NoError(t, err)
		})
		synctest.Wait()
		require.Len(t, r.transactions(began), 2)
		release()
		all.Wait()
		requireGranted(t, first)
	})
}
