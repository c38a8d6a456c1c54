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

// A call is a call of Claim that may not have returned.
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

// transactions returns the transactions that were received since an instant, without heartbeats.
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
		began := time.Now()
		cancel()
		<-left.done
		require.Zero(t, time.Since(began), "while the group is in flight")
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

func TestWritesThatWaitForAGroupEndWithTheClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newRack(t, 5)
		_, release := r.busy(t)
		calls := r.claims(t.Context(), r.queues[1:]...)
		began := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- r.client.Close() }()
		for _, c := range calls {
			<-c.done
			require.ErrorIs(t, c.err, recipes.ErrClosed)
		}
		require.Zero(t, time.Since(began), "while the group is in flight")
		release()
		<-closed //nolint:errcheck // the client is abandoned
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
