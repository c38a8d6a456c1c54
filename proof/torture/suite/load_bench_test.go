// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The load of these benchmarks, all of it on one client.
const (
	crowd       = 10_000 // callers of Lock, or holds
	deletions   = 100    // of holds' nodes, by an operator
	loops       = 100    // calls of Run
	outages     = 10     // of a fifth of the session timeout
	loadTimeout = 10 * time.Second
)

// A loaded is a client that counts its traffic and its heartbeats.
type loaded struct {
	env      *env
	client   *recipes.Client
	timeout  time.Duration
	received atomic.Int64 // bytes
	beats    atomic.Int64 // heartbeats that were answered
	longest  atomic.Int64 // of all heartbeats, in nanoseconds
	failed   atomic.Int64 // heartbeats that were not answered
	detached atomic.Int64 // connections that ended
}

// onLoad returns an env on one server whose ctx lasts for ten minutes.
func onLoad(b *testing.B) *env {
	b.Helper()
	s := onOne(b)
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	b.Cleanup(cancel)
	s.Ctx = ctx
	return s
}

// loaded returns a loaded client of the servers.
func (s *env) loaded(timeout time.Duration, servers ...string) *loaded {
	s.T.Helper()
	l := &loaded{env: s, timeout: timeout}
	l.client = s.Connect(recipes.Options{
		SessionTimeout: timeout,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countingConn{conn, &l.received}, nil
		},
		Trace: &recipes.Trace{Detached: func(recipes.SessionEvent) { l.detached.Add(1) }, Heartbeat: func(e recipes.SessionEvent) {
			l.longest.Store(max(l.longest.Load(), int64(e.RoundTrip))) // Trace calls one function at a time
			if e.Err == nil {
				l.beats.Add(1)
			} else {
				l.failed.Add(1)
			}
		}},
	}, servers...)
	return l
}

// beat waits until n more heartbeats were answered.
func (l *loaded) beat(n int64) {
	l.env.T.Helper()
	n += l.beats.Load()
	l.env.Eventually("heartbeats", func() bool { return l.beats.Load() >= n })
}

// longestBeat returns the longest round trip of a heartbeat, in seconds.
func (l *loaded) longestBeat() float64 { return time.Duration(l.longest.Load()).Seconds() }

// A countingConn counts the bytes that are read from it.
type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

var watchCountLine = regexp.MustCompile(`(?m)^zk_watch_count\s+(\d+)$`)

// watchCount returns how many watches the server has.
func (s *env) watchCount() int {
	s.T.Helper()
	answer, err := s.ensemble.Servers()[0].FourLetter(s.Ctx, "mntr")
	require.NoError(s.T, err)
	m := watchCountLine.FindStringSubmatch(answer)
	require.NotNil(s.T, m, answer)
	n, err := strconv.Atoi(m[1])
	require.NoError(s.T, err)
	return n
}

// BenchmarkBurstOfLocks makes one client call Lock on one lock very often at the same time, as after an outage. All callers
// are queued when each has a node, and a watch on its predecessor.
func BenchmarkBurstOfLocks(b *testing.B) {
	s := onLoad(b)
	for n := 0; b.Loop(); n++ {
		b.ReportMetric(s.bareQueue(fmt.Sprint("bare-", n), crowd).Seconds(), "bare-s-to-queue")
		l := s.loaded(loadTimeout)
		other := s.Lock(s.Mutex(l.client, fmt.Sprint("other-", n)))
		name := fmt.Sprint("lock-", n)
		mu := s.Mutex(l.client, name)
		watches := s.watchCount()
		l.beat(1)
		l.longest.Store(0)
		received := l.received.Load()

		ctx, cancel := context.WithCancel(s.Ctx)
		holds := make(chan *lock.Hold, crowd)
		var locking sync.WaitGroup
		began := time.Now()
		for range crowd {
			locking.Go(func() {
				if hold, err := mu.Lock(ctx); err == nil {
					holds <- hold
				}
			})
		}
		s.Eventually("a queue", func() bool {
			exists, stat, err := s.ZK.Exists(s.Path(name))
			return err == nil && exists && stat.NumChildren >= crowd && s.watchCount()-watches >= crowd-1
		})
		queued := time.Since(began)
		l.beat(1) // it may have been sent before all were queued
		l.beat(1)
		received = l.received.Load() - received

		ended := time.Now()
		cancel()
		locking.Wait()
		b.ReportMetric(time.Since(ended).Seconds(), "s-to-cancel")
		lost := 0
		if err := other.Err(); err != nil {
			lost++
			b.Logf("%v; %d times without a server, %d heartbeats failed", err, l.detached.Load(), l.failed.Load())
		}
		prefix := fmt.Sprintf("%d Lock calls on one lock, T = %v: ", crowd, l.timeout)
		budgets.measured(budget{prefix + "all queued", "s", queued.Seconds(), 3})
		budgets.measured(budget{prefix + "received by the client", "MB", float64(received) / 1e6, 10})
		budgets.measured(budget{prefix + "longest heartbeat", "s", l.longestBeat(), (l.timeout / 8).Seconds()})
		budgets.measured(budget{prefix + "claims lost on another lock", "", float64(lost), 0})
		close(holds)
		for hold := range holds {
			_ = hold.Unlock(s.Ctx) // a lost one is counted already, or was held for a moment only
		}
		_ = other.Unlock(s.Ctx)
		l.client.Close()
	}
}

// bareQueue queues n nodes at the same time with the ZooKeeper client alone, each with a watch on its predecessor. It returns
// how long that took.
func (s *env) bareQueue(name string, n int) time.Duration {
	s.T.Helper()
	parent := s.parent(name)
	conn := s.Bare(s.ensemble.Addrs()...)
	defer conn.Close()
	var queueing sync.WaitGroup
	began := time.Now()
	for range n {
		queueing.Go(func() {
			path, err := conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			if err == nil {
				_, err = watchBefore(conn, path)
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				s.T.Error(err)
			}
		})
	}
	queueing.Wait()
	return time.Since(began)
}

// BenchmarkDeletedHolds makes one client hold very many locks. An operator deletes the nodes of some of them.
func BenchmarkDeletedHolds(b *testing.B) {
	s := onLoad(b)
	for n := 0; b.Loop(); n++ {
		l := s.loaded(loadTimeout)
		holds := make([]*lock.Hold, crowd)
		var locking sync.WaitGroup
		began := time.Now()
		for i := range holds {
			mu := s.Mutex(l.client, fmt.Sprintf("holds-%d/lock-%d", n, i))
			locking.Go(func() {
				hold, err := mu.Lock(s.Ctx)
				if err != nil {
					b.Error(err)
				}
				holds[i] = hold
			})
		}
		locking.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "s-to-lock")
		if b.Failed() {
			return
		}
		rand.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
		young := s.deleted(holds[:deletions])
		b.ReportMetric(young.Seconds(), "s-to-notify-immediately")
		l.beat(2) // every node is watched
		old := s.deleted(holds[deletions : 2*deletions])
		// Without a proof of liveness, a claim reaches its deadline before the fifth heartbeat.
		l.beat(5)
		lost := 0
		for _, hold := range holds[2*deletions:] {
			if hold.Err() != nil {
				lost++
			}
		}
		prefix := fmt.Sprintf("%d holds on one client, T = %v, %d deleted: ", crowd, l.timeout, deletions)
		budgets.measured(budget{prefix + "last notified", "s", old.Seconds(), (l.timeout / 6).Seconds()})
		budgets.measured(budget{prefix + "other claims lost", "", float64(lost), 0})
		l.client.Close()
	}
}

// deleted deletes the nodes of holds, as an operator would, and returns how long it took until the last holder was notified.
func (s *env) deleted(holds []*lock.Hold) time.Duration {
	s.T.Helper()
	var deleting sync.WaitGroup
	var longest atomic.Int64
	for _, hold := range holds {
		deleting.Go(func() {
			began := time.Now()
			if err := s.ZK.Delete(hold.Path(), -1); err != nil {
				s.T.Errorf("delete %s: %v", hold.Path(), err)
				return
			}
			select {
			case <-hold.Done():
			case <-s.Ctx.Done():
			}
			took := int64(time.Since(began))
			for {
				before := longest.Load()
				if took <= before || longest.CompareAndSwap(before, took) {
					return
				}
			}
		})
	}
	deleting.Wait()
	return time.Duration(longest.Load())
}

// BenchmarkRunOverOutages makes one client call Run in many loops, which lead in turn without a pause, while other callers
// call Lock and the server has repeated outages: it refuses connections, or drops all packets.
func BenchmarkRunOverOutages(b *testing.B) {
	s := onLoad(b)
	for n := 0; b.Loop(); n++ {
		p := s.proxy(s.ensemble.Servers()[0])
		l := s.loaded(4*time.Second, p.Addr())
		ctx, stop := context.WithCancel(s.Ctx)
		var running sync.WaitGroup
		for i := range 10 * loops {
			mu := s.Mutex(l.client, fmt.Sprintf("lock-%d/%d", n, i))
			running.Go(func() {
				for ctx.Err() == nil {
					if hold, err := mu.Lock(ctx); err == nil {
						_ = hold.Unlock(ctx) // load only: the hold may be lost
					}
				}
			})
		}
		var terms [loops]atomic.Int64
		var lost, ended atomic.Int64
		for i := range loops {
			e := s.ElectionWith(l.client, fmt.Sprintf("election-%d/%d", n, i%(loops/2)), election.Options{Owner: fmt.Sprint("loop-", i)})
			running.Go(func() {
				err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
					_ = term.Check(ctx) // term.Err has the result
					if term.Err() != nil {
						lost.Add(1)
					}
					terms[i].Add(1)
					return nil
				})
				if ctx.Err() == nil {
					ended.Add(1)
					b.Logf("Run has ended: %v", err)
				}
			})
		}
		leading := func() {
			var before [loops]int64
			for i := range terms {
				before[i] = terms[i].Load()
			}
			s.Eventually("a term of each loop", func() bool {
				waiting := int64(0)
				for i := range terms {
					if terms[i].Load() == before[i] {
						waiting++
					}
				}
				return waiting <= ended.Load()
			})
		}
		leading()
		for i := range outages {
			if i%2 == 0 {
				p.Refuse()
			} else {
				p.Drop(docker.Both)
			}
			<-time.After(l.timeout / 5)
			p.Heal()
			l.beat(2)
			leading()
		}
		all := int64(0)
		for i := range terms {
			all += terms[i].Load()
		}
		b.ReportMetric(float64(all), "terms")
		b.ReportMetric(float64(lost.Load()), "terms-lost")
		budgets.measured(budget{
			fmt.Sprintf("%d Run loops on one client, T = %v, %d outages of T/5: loops ended", loops, l.timeout, outages), "", float64(ended.Load()), 0,
		})
		stop()
		running.Wait()
		l.client.Close()
	}
}
