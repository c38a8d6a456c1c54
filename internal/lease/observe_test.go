// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestReplicaThatDisappearsLeavesItsLeasesToTheSweeper(t *testing.T) {
	for name, key := range map[string]string{"key": "ledger", "key like a contender": "job-lock-0000000001"} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(w world) {
				swept := func(client *recipes.Client) *lease.Replica {
					r, err := lease.New(client, &lease.Options{Sweep: "/locks"})
					require.NoError(w, err)
					w.Cleanup(r.Close)
					return r
				}
				swept(w.client(recipes.Options{}))
				time.Sleep(time.Second)
				client := w.client(recipes.Options{})
				r := swept(client)
				time.Sleep(time.Second)
				req := ask("a")
				req.Path = "/locks/" + key
				w.acquired(r, req)
				nodes := func() []string {
					names, err := w.Children(req.Path)
					require.NoError(w, err)
					return names
				}
				r.Close()
				client.Close()
				time.Sleep(notYet)
				require.Len(w, nodes(), 1)
				time.Sleep(time.Second)
				require.Empty(w, nodes())
			})
		})
	}
}

func TestReplicaThatDisappearsDuringAPassCausesTheNext(t *testing.T) {
	simulated(t, func(w world) {
		member := func() (r *lease.Replica, end func()) {
			client := w.client(recipes.Options{})
			r, err := lease.New(client, &lease.Options{Sweep: "/locks"})
			require.NoError(w, err)
			time.Sleep(time.Second) // so that they join in this order
			return r, sync.OnceFunc(func() { r.Close(); client.Close() })
		}
		_, endSweeper := member()
		defer endSweeper()
		r, end := member()
		_, endOther := member()
		for i := range 30 {
			req := ask("a")
			req.Path = fmt.Sprintf("/locks/slow%d", i)
			require.NoError(w, r.Release(w.Context(), w.acquired(r, req).Ticket))
		}
		g := w.acquired(r, ask("a"))
		defer w.Intercept(zktest.Rule{
			When:  func(r zktest.Request) bool { return !r.Watch && strings.HasPrefix(r.Path, "/locks/slow") },
			Delay: timeout / 12,
		}).Remove()
		endOther()
		for range 10 {
			time.Sleep(time.Second)
			_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
			require.NoError(w, err)
		}
		end()
		require.Len(w, w.nodes(), 1)
		time.Sleep(expired + 30*time.Second)
		require.Empty(w, w.nodes())
	})
}

// The budget is 200 bytes for each lease, one timer and no goroutine.
func TestObservedLeaseCostsLittleMemoryAndNoGoroutine(t *testing.T) {
	need.NoRaceDetector(t)
	const leases = 10_000
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		client := w.client(recipes.Options{})
		queue, err := queue.New(client, path, nil)
		require.NoError(w, err)
		c, err := queue.First(w.Context())
		require.NoError(w, err)
		require.Equal(w, g.Ticket.Node, c.Name)
		queue.Observe(c)

		names := make([]string, leases)
		for i := range names {
			names[i] = fmt.Sprintf("5-abcdefghijklmnopqr-lock-%010d", i)
		}
		synctest.Wait() // so that none that was started before ends meanwhile
		goroutines, before := runtime.NumGoroutine(), allocated()
		for _, name := range names {
			c.Name = name
			queue.Observe(c)
		}
		used := (allocated() - before) / leases
		w.Logf("%d bytes for each lease", used)
		require.LessOrEqual(w, used, int64(200))
		synctest.Wait()
		require.Equal(w, goroutines, runtime.NumGoroutine())

		deletions := w.Intercept(zktest.Rule{Op: "delete"})
		time.Sleep(expired)
		require.Empty(w, w.nodes())
		require.LessOrEqual(w, deletions.Fired(), 2, "a node that is missing needs no write")
	})
}

func allocated() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it fits
}

func TestManyWaitersOnOneKeyAreServedInOrder(t *testing.T) {
	need.NoRaceDetector(t)
	const waiters = 1000
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("first"))
		results := make(chan outcome, waiters)
		for i := range waiters {
			r := []*lease.Replica{one, other}[i%2]
			go func() {
				g, err := w.acquire(r, waiting(fmt.Sprint(i), 20*time.Second))
				results <- outcome{g, err, time.Now()}
			}()
		}
		time.Sleep(time.Second) // each has listed the queue
		require.Len(w, w.nodes(), 1+waiters)
		counts := w.requests(func() { time.Sleep(10 * time.Second) })
		w.Logf("10 s of waiting: %v", counts)
		require.LessOrEqual(w, counts["multi"], 30, "100 writes a second, in few transactions")
		require.Zero(w, counts["getChildren"])
		last := first
		for range waiters {
			require.NoError(w, one.Release(w.Context(), last.Ticket))
			o := <-results
			require.NoError(w, o.err)
			require.Greater(w, o.grant.Token, last.Token)
			last = o.grant
		}
	})
}

// If all waiters whose renewal was not sent in time asked again, a slow ensemble would be slower.
func TestSlowRenewalsAreSentLaterWithoutWakingTheWaiters(t *testing.T) {
	need.NoRaceDetector(t)
	const waiters = 10 * 64
	simulated(t, func(w world) {
		r := w.replica()
		w.acquired(r, ask("first"))
		for i := range waiters {
			go func() { _, _ = w.acquire(r, waiting(fmt.Sprint(i), time.Hour)) }()
		}
		time.Sleep(time.Second) // each has listed the queue
		require.Len(w, w.nodes(), 1+waiters)
		slow := w.Intercept(zktest.Rule{Op: "multi", Delay: timeout / 10})
		defer slow.Remove()
		counts := w.requests(func() { time.Sleep(18 * time.Second) })
		w.Logf("%v", counts)
		require.GreaterOrEqual(w, counts["multi"], 10)
		require.LessOrEqual(w, counts["setData"], 3*64, "of few transactions, whose outcome is unknown")
	})
}

// A principal that repeats its requests, and does not end its earlier calls, makes the server refuse each transaction that has one
// of their nodes.
func TestRequestsThatAreTakenOverDoNotKeepOtherWaitersFromBeingRenewed(t *testing.T) {
	need.NoRaceDetector(t)
	const waiters, repeated = 4 * 64, 40
	simulated(t, func(w world) {
		r, other := w.replica(), w.replica()
		held := ask("first")
		held.TTL = time.Hour
		w.acquired(r, held)
		wait := func(r *lease.Replica, i int) {
			req := waiting(fmt.Sprint(i), time.Hour)
			req.Unbroken = true
			go func() { _, _ = w.acquire(r, req) }()
		}
		for i := range waiters {
			wait(r, i)
		}
		time.Sleep(time.Second) // each has listed the queue
		before := w.nodes()
		require.Len(w, before, 1+waiters)
		defer w.Intercept(zktest.Rule{Op: "setData", Delay: timeout / 100}).Remove()
		for second := range 60 {
			for i := range repeated {
				wait([]*lease.Replica{other, r}[second%2], i)
			}
			time.Sleep(time.Second)
		}
		require.Equal(w, before, w.nodes(), "none has expired")
	})
}

func TestGrantDoesNotWaitForRenewalsOfOtherWaiters(t *testing.T) {
	const waiters, latency = 10 * 64, 250 * time.Millisecond
	simulated(t, func(w world) {
		r := w.replica()
		first := w.acquired(r, ask("first"))
		for _, wait := range []time.Duration{0, time.Hour} { // the first waiter begins the ticks: all others are due at the same one
			other := waiting(fmt.Sprint("other ", wait), wait)
			other.Path = path + "-other"
			w.acquiring(w.Context(), r, other)
		}
		time.Sleep(10 * time.Millisecond)
		second := w.acquiring(w.Context(), r, waiting("second", time.Hour))
		for i := range waiters {
			go func() { _, _ = w.acquire(r, waiting(fmt.Sprint(i), time.Hour)) }()
		}
		time.Sleep(time.Second) // each has listed the queue
		require.Len(w, w.nodes(), 2+waiters)
		renewals := w.Intercept(zktest.Rule{Op: "multi", Delay: latency})
		defer renewals.Remove()
		for renewals.Fired() < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
		require.Less(w, time.Since(began), 5*latency, "of 10 transactions")
	})
}
