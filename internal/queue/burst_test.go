// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const burst = 2000 // contenders of one client that arrive at the same time

// How many ordinary requests of one session may be in flight, and how many of those not for
// holders.
const (
	ordinary     = 64
	unprivileged = 48
)

// A crowd is contenders of one client that wait until it is dispersed.
type crowd struct {
	servers
	ctx     context.Context
	cancel  context.CancelFunc
	members sync.WaitGroup
}

func (s servers) crowd() *crowd {
	ctx, cancel := context.WithCancel(s.Context())
	return &crowd{servers: s, ctx: ctx, cancel: cancel}
}

// gather makes n contenders claim the path that path returns for each, and release it again.
func (s servers) gather(client *recipes.Client, n int, path func(i int) string) *crowd {
	c := s.crowd()
	queues := make(map[string]*queue.Queue)
	for i := range n {
		queue := queues[path(i)]
		if queue == nil {
			queue = s.queue(client, path(i))
			queues[path(i)] = queue
		}
		c.join(queue, 1)
	}
	return c
}

// join makes n more contenders claim the queue, and release it again.
func (c *crowd) join(queue *queue.Queue, n int) {
	for range n {
		c.members.Go(func() {
			claim, err := queue.Claim(c.ctx)
			if err == nil {
				err = queue.Release(c.ctx, claim)
			}
			if err != nil && c.ctx.Err() == nil {
				c.Errorf("contender of %s: %v", queue.Path(), err)
			}
		})
	}
}

// disperse cancels them and waits until they have returned.
func (c *crowd) disperse() {
	c.cancel()
	c.members.Wait()
}

func on(path string) func(int) string { return func(int) string { return path } }

func TestBurstOfJoinsOnOneLockCostsAHandfulOfListingsAndNoClaimOnAnother(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/b")
		m, p := metered(s.Ensemble), &pulse{}
		client := s.loaded(recipes.Options{Dial: m.Dial, Trace: &recipes.Trace{Heartbeat: p.beat}})
		claim := s.holds(client, "/a")
		time.Sleep(loadTimeout)

		listings := s.Intercept(zktest.Rule{Op: "getChildren"})
		c := s.gather(client, burst, on("/b"))
		defer c.disperse()
		s.queued("/b", burst+1, loadTimeout/4)
		time.Sleep(2 * loadTimeout)
		require.NoError(s, claim.Err())
		requests := sum(listings)
		received, _, _, ahead, inFlight := m.read()
		s.Logf("%d listings, %d bytes received, a heartbeat behind %d requests and answered after %v", requests, received, ahead, p.slowest())
		require.LessOrEqual(s, requests, 10)
		require.Less(s, received, burst*1000)
		require.LessOrEqual(s, ahead, ordinary)
		require.LessOrEqual(s, inFlight, ordinary)
		require.Less(s, p.slowest(), loadTimeout/8)

		c.disperse()
		require.NoError(s, claim.Err())
		s.queued("/b", 1, loadTimeout)
		require.Equal(s, 1, client.OutstandingNodes())
	})
}

func TestHolderDoesNotWaitBehindABurstOfJoins(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/b")
		client := s.loaded(recipes.Options{Dial: metered(s.Ensemble).Dial})
		claim := s.holds(client, "/a")
		time.Sleep(loadTimeout)
		c := s.gather(client, burst, on("/b")) // which takes 1.5 s
		defer c.disperse()
		for _, request := range []func() error{
			func() error { return claim.Check(s.Context()) },
			func() error {
				_, err := claim.Commit(s.Context())
				return err
			},
			func() error { return s.queue(client, "/a").Release(s.Context(), claim) },
		} {
			time.Sleep(20 * time.Millisecond)
			began := time.Now()
			require.NoError(s, request())
			require.Less(s, time.Since(began), 50*time.Millisecond)
		}
		names, err := s.Children("/b")
		require.NoError(s, err)
		require.Less(s, len(names), burst, "the burst is under way")
	})
}

// The name of a node is predictable if its join checks another node of the session. So
// only joins that are sent before the first is answered do without such a check, however
// many callers have arrived by then.
func TestBurstOfJoinsOnAKnownPathReadsOnePredecessorForEach(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{}, func(s servers) {
		link := s.Link()
		link.Delay(time.Millisecond) // all callers arrive before the first reply
		client := s.loaded(recipes.Options{Dial: link.Dial})
		queue := s.queue(client, "/b")
		claim, err := queue.Claim(s.Context())
		require.NoError(s, err)
		require.NoError(s, queue.Release(s.Context(), claim))
		s.holds(s.loaded(recipes.Options{}), "/b")

		reads := s.Intercept(zktest.Rule{Op: "getData", Below: "/b"})
		c := s.crowd()
		defer c.disperse()
		c.join(queue, burst)
		s.queued("/b", burst+1, loadTimeout/4)
		time.Sleep(loadTimeout)
		requests := sum(reads)
		require.LessOrEqual(s, requests, burst+3*ordinary)
	})
}

func TestBurstOfJoinsAfterAnExpiryCostsAHandfulOfListingsAndNoClaimOfTheNextSession(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/b")
		m, p := metered(s.Ensemble), &pulse{}
		var rejoined atomic.Int64
		client := s.loaded(recipes.Options{Dial: m.Dial, Trace: &recipes.Trace{Heartbeat: p.beat, Rejoined: func(recipes.QueueEvent) { rejoined.Add(1) }}})
		c := s.gather(client, burst/2, on("/b"))
		defer c.disperse()
		s.queued("/b", burst/2+1, loadTimeout)
		time.Sleep(loadTimeout)

		before, _, _, _, _ := m.read()
		listings := s.Intercept(zktest.Rule{Op: "getChildren"})
		require.NoError(s, s.Expire(t.Context(), client.SessionID()))
		claim := s.holds(client, "/a")
		s.queued("/b", burst/2+1, loadTimeout/4)
		time.Sleep(2 * loadTimeout)
		require.NoError(s, claim.Err())
		requests := sum(listings)
		received, _, _, ahead, _ := m.read()
		s.Logf("%d listings, %d bytes received, a heartbeat behind %d requests and answered after %v", requests, received-before, ahead, p.slowest())
		require.LessOrEqual(s, requests, 10)
		require.Less(s, received-before, burst/2*1000)
		require.LessOrEqual(s, ahead, ordinary)
		require.Less(s, p.slowest(), loadTimeout/8)
	})
}

func TestBurstOfManyLocksAtAShortTimeoutLosesNoClaim(t *testing.T) {
	need.NoRaceDetector(t)
	const timeout = 2 * time.Second
	crowded(t, zktest.Options{Tick: timeout / 4}, func(s servers) {
		m, p := metered(s.Ensemble), &pulse{}
		m.perFrame *= 2 // so that it takes longer than T
		client := s.loaded(recipes.Options{SessionTimeout: timeout, Dial: m.Dial, Trace: &recipes.Trace{Heartbeat: p.beat}})
		claim := s.holds(client, "/a")
		time.Sleep(timeout)
		began := time.Now()
		s.gather(client, burst*3/4, func(i int) string { return fmt.Sprintf("/d/%d", i) }).members.Wait()
		took := time.Since(began)
		require.Greater(s, took, timeout, "a burst that is over before a deadline shows nothing")
		require.NoError(s, claim.Err())
		_, _, _, ahead, _ := m.read()
		s.Logf("%v, a heartbeat behind %d requests and answered after %v", took, ahead, p.slowest())
		require.LessOrEqual(s, ahead, ordinary)
		require.Less(s, p.slowest(), timeout/8)
	})
}

const roundTrip = 20 * time.Millisecond

// With each caller in its turn, whoever it is, a release would wait behind the joins of all other locks, and so would each
// read of the next contender.
func TestHandOffDoesNotWaitBehindTheJoinsOfOtherLocks(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{}, func(s servers) {
		took := s.handOver(func(client *recipes.Client, path string) func() *queue.Queue {
			known := s.queue(client, path)
			return func() *queue.Queue { return known }
		}, func(queue *queue.Queue, claim *recipes.Claim) { require.NoError(s, queue.Release(s.Context(), claim)) })
		require.Less(s, took, 6*roundTrip)
	})
}

// A wait begins with the read of a path that is not known yet. The two reads of the next contender after a death end a wait.
func TestHandOffAfterADeathDoesNotWaitBehindTheFirstReadsOfOtherPaths(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{}, func(s servers) {
		took := s.handOver(func(client *recipes.Client, path string) func() *queue.Queue {
			return func() *queue.Queue { return s.queue(client, path) }
		}, func(_ *queue.Queue, claim *recipes.Claim) { require.NoError(s, s.Delete(claim.Path())) })
		require.Less(s, took, 6*roundTrip)
	})
}

// handOver passes a claim on between two contenders of a client that has 1,000 other contenders, one on each path, with the queue
// that other returns for each cycle. It returns how long the longest hand-off took.
func (s servers) handOver(
	other func(client *recipes.Client, path string) func() *queue.Queue, pass func(*queue.Queue, *recipes.Claim),
) (longest time.Duration) {
	link := s.Link()
	link.Delay(roundTrip / 2)
	client := s.loaded(recipes.Options{Dial: link.Dial})
	queue := s.queue(client, "/a")
	c := s.crowd()
	for i := range 1000 {
		next := other(client, fmt.Sprintf("/d/%d", i))
		c.members.Go(func() {
			for c.ctx.Err() == nil {
				other := next()
				if claim, err := other.Claim(c.ctx); err == nil {
					_ = other.Release(c.ctx, claim)
				}
			}
		})
	}
	defer c.disperse()
	time.Sleep(loadTimeout / 6)
	var total time.Duration
	const times = 2
	claim := s.holds(client, "/a")
	for range times {
		granted := make(chan *recipes.Claim)
		c.members.Go(func() {
			next, _ := queue.Claim(c.ctx)
			granted <- next
		})
		s.queued("/a", 2, loadTimeout)
		time.Sleep(10 * roundTrip)
		began := time.Now()
		pass(queue, claim)
		claim = <-granted
		require.NotNil(s, claim)
		took := time.Since(began)
		longest, total = max(longest, took), total+took
	}
	s.Logf("a hand-off takes %v, and %v at most", total/times, longest)
	return longest
}
