// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

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
