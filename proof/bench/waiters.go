// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

var (
	waiters10   = waitersCase(10)
	waiters1000 = waitersCase(1000)
	waiters5000 = waitersCase(5000)
)

// inSessions is what the metrics of waiters with a session each begin with, and inOne those of waiters of one client.
const (
	inSessions = "sessions: "
	inOne      = "one client: "
)

func waitersCase(n int) *benchCase {
	return &benchCase{
		name: fmt.Sprintf("waiters-%d", n), servers: []int{1},
		about: fmt.Sprintf("%d contenders wait for one lock, in one client and in as many sessions: what a join, a hand-off and a waiter cost.", n),
		round: func(r *round) error {
			for _, l := range onZooKeeper {
				if r.bench.short && n > 1000 && l.name != ours {
					continue
				}
				for _, kind := range []string{inOne, inSessions} {
					if err := r.process(processTask{Library: l.name, N: n, Kind: kind}); err != nil {
						return fmt.Errorf("%s, %s%w", l.name, kind, err)
					}
				}
			}
			for _, metric := range []string{inOne + "hand-off p50 ms", inSessions + "hand-off p50 ms"} {
				r.compare(metric, []string{ours}, zkLock)
			}
			return nil
		},
	}
}

// A turn is a grant to a waiter.
type turn struct {
	at      time.Time
	release unlock
	err     error
}

// A queue has waiters for a lock that is held.
type queue struct {
	o       *opened
	turns   chan turn
	cancel  context.CancelFunc
	waiting sync.WaitGroup
	holder  unlock
}

// queued makes n contenders wait for a lock, and returns when all have joined and watch.
func (r *round) queued(o *opened, sessions, n int) (*queue, error) {
	holder, err := o.lock(r, 0)
	if err != nil {
		return nil, err
	}
	before, err := r.watches()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r)
	q := &queue{o: o, turns: make(chan turn, n), cancel: cancel, holder: holder}
	for i := range n {
		q.waiting.Go(func() {
			release, err := o.lock(ctx, min(i+1, sessions-1))
			q.turns <- turn{time.Now(), release, err}
		})
	}
	admin, err := r.admin()
	if err == nil {
		err = r.until("a queue", func() (bool, error) {
			_, stat, err := admin.Exists(o.path)
			if err != nil || int(stat.NumChildren) <= n {
				return false, err
			}
			now, err := r.watches()
			return now-before >= int64(n-1), err
		})
	}
	if err != nil {
		q.end()
		return nil, err
	}
	return q, nil
}

// next releases the lock and returns how long it took until the next waiter was granted it.
func (q *queue) next(r *round) (time.Duration, error) {
	began := time.Now()
	if err := q.holder(r); err != nil {
		return 0, err
	}
	next := <-q.turns
	q.holder = next.release
	return next.at.Sub(began), next.err
}

// end ends all contenders. Those of zk.Lock may not return when their connection is closed.
func (q *queue) end() {
	q.cancel()
	q.o.close()
}

// crowd measures a queue of n waiters of a library.
func (r *round) crowd(l library, s setup, n int, kind string) error {
	r.progress("%s, %s%d waiters", l.name, kind, n)
	if _, err := r.admin(); err != nil { // whose buffers are not a waiter's
		return err
	}
	heap, _ := live()
	o, err := l.open(r, s)
	if err != nil {
		return err
	}
	closing := sync.OnceFunc(o.close)
	o.close = closing
	defer closing()
	if s.sessions > 1 {
		opened, _ := live()
		r.add(l.name, kind+"heap of a session kB", float64(opened-heap)/float64(s.sessions)/1000)
		// The path is known from here on.
		if err := each(s.sessions, func(i int) error { return once(r, o, i) }); err != nil {
			return err
		}
	} else if err := once(r, o, 0); err != nil {
		return err
	}
	heap, goroutines := live()
	before, err := r.settled()
	if err != nil {
		return err
	}
	bytes, began := o.received.Load(), time.Now()
	q, err := r.queued(o, s.sessions, n)
	if err != nil {
		return err
	}
	defer q.end()
	r.add(l.name, kind+"join s", time.Since(began).Seconds())
	joined, err := r.settled()
	if err != nil {
		return err
	}
	heapAfter, goroutinesAfter := live()
	r.add(l.name, kind+"join requests", float64(joined.minus(before).received)/float64(n))
	r.add(l.name, kind+"join bytes", float64(o.received.Load()-bytes)/float64(n))
	r.add(l.name, kind+"heap of a waiter kB", float64(heapAfter-heap)/float64(n)/1000)
	r.add(l.name, kind+"goroutines of a waiter", float64(goroutinesAfter-goroutines)/float64(n))
	bytes = o.received.Load()
	var times []time.Duration
	handOffs := min(n-1, r.size(500, 50))
	for range handOffs {
		took, err := q.next(r)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	after, err := r.settled()
	if err != nil {
		return err
	}
	r.add(l.name, kind+"hand-off p50 ms", millis(median(times)))
	r.add(l.name, kind+"hand-off bytes", float64(o.received.Load()-bytes)/float64(handOffs))
	r.add(l.name, kind+"hand-off requests", float64(after.minus(joined).received)/float64(handOffs))
	r.add(l.name, kind+"hand-off answers", float64(after.minus(joined).sent)/float64(handOffs))
	return nil
}

// once locks and unlocks a lock.
func once(r *round, o *opened, worker int) error {
	release, err := o.lock(r, worker)
	if err != nil {
		return err
	}
	return release(r)
}

// live returns the bytes of live objects, and the goroutines.
func live() (bytes int64, goroutines int) {
	runtime.GC()
	runtime.GC() // what the first one has moved out of pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), runtime.NumGoroutine() //nolint:gosec // far below the largest int64
}

// idleWaiters counts what a crowd writes that only waits.
var idleWaiters = &benchCase{
	name: "idle-waiters", servers: []int{1, 3},
	about: "Standby processes, each with a session of its own and T = 10 s, wait for one holder and do nothing else: the load that they put on the ensemble.",
	round: func(r *round) error {
		const n = 1000
		for _, l := range []library{lockkeeper, goZKLock} {
			if err := r.process(processTask{Library: l.name, N: n}); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		return nil
	},
}

// idleTimeout is the session timeout of idle crowds.
const idleTimeout = 10 * time.Second

func (r *round) idle(l library, n int) error {
	r.progress("%s, %d waiters", l.name, n)
	o, err := l.open(r, setup{sessions: n + 1, locks: 1, timeout: idleTimeout})
	if err != nil {
		return err
	}
	o.close = sync.OnceFunc(o.close)
	defer o.close()
	q, err := r.queued(o, n+1, n)
	if err != nil {
		return err
	}
	defer q.end()
	return r.idling(l.name, n)
}

// idling adds what the sessions of a library write and send, and what they have written for each claim.
func (r *round) idling(library string, claims int) error {
	select { // the first heartbeats come sooner
	case <-time.After(idleTimeout):
	case <-r.Done():
		return context.Cause(r)
	}
	before, err := r.counters()
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-time.After(r.during(4 * idleTimeout)):
	case <-r.Done():
		return context.Cause(r)
	}
	after, err := r.counters()
	if err != nil {
		return err
	}
	cost, took := after.minus(before), time.Since(began).Seconds()
	r.add(library, "claims", float64(claims))
	r.add(library, "writes a second", float64(cost.transactions)/took)
	r.add(library, "requests a second", float64(cost.received)/took)
	return nil
}
