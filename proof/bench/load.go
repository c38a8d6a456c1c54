// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A loaded is a client of ours that counts its traffic and its heartbeats.
type loaded struct {
	*recipes.Client
	traffic
	beats   atomic.Int64 // heartbeats that were answered
	longest atomic.Int64 // of all heartbeats, in nanoseconds
}

func (r *round) loaded(server string, timeout time.Duration) (*loaded, error) {
	l := &loaded{}
	var err error
	l.Client, err = connect(r, server, timeout, l.dial, &recipes.Trace{Heartbeat: func(e recipes.SessionEvent) {
		l.longest.Store(max(l.longest.Load(), int64(e.RoundTrip))) // Trace calls one function at a time
		if e.Err == nil {
			l.beats.Add(1)
		}
	}})
	if err == nil {
		r.cleanup(func() { _ = l.Close() })
	}
	return l, err
}

// beat waits until n more heartbeats were answered.
func (l *loaded) beat(r *round, n int64) error {
	n += l.beats.Load()
	return r.until("heartbeats", func() (bool, error) { return l.beats.Load() >= n, nil })
}

// beforeBeat waits until the next heartbeat of an idle holder is due soon: what follows delays it, if it does.
func (l *loaded) beforeBeat(r *round) error {
	if err := l.beat(r, 1); err != nil {
		return err
	}
	<-time.After(idleTimeout/6 - 200*time.Millisecond)
	return nil
}

// burst makes one client call Lock on one lock very often at the same time, as after an outage.
var burst = &benchCase{
	name: "burst", servers: []int{1},
	about: "10,000 goroutines of one client call Lock on one lock at the same time, as after an outage, while the client holds another lock.",
	round: func(r *round) error {
		n := 10_000
		l, err := r.loaded(r.server(0), idleTimeout)
		if err != nil {
			return err
		}
		other, err := lock.New(l.Client, r.path(), nil)
		if err != nil {
			return err
		}
		held, err := other.Lock(r)
		if err != nil {
			return err
		}
		path := r.path()
		mu, err := lock.New(l.Client, path, nil)
		if err != nil {
			return err
		}
		if err := l.beforeBeat(r); err != nil {
			return err
		}
		l.longest.Store(0)
		beats := l.beats.Load()
		received, began := l.received.Load(), time.Now()
		q, err := r.queued(&opened{path: path, close: func() {}, lock: func(ctx context.Context, _ int) (unlock, error) {
			hold, err := mu.Lock(ctx)
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		}}, 1, n-1)
		if err != nil {
			return err
		}
		r.add(ours, "claims", float64(n))
		r.add(ours, "all queued s", time.Since(began).Seconds())
		r.add(ours, "heartbeats while calls are queued", float64(l.beats.Load()-beats))
		err = l.beforeBeat(r)
		r.add(ours, "received MB", float64(l.received.Load()-received)/1e6)
		began = time.Now()
		q.end()
		q.waiting.Wait()
		r.add(ours, "cancelled s", time.Since(began).Seconds())
		err = errors.Join(err, l.beat(r, 1)) // which was due meanwhile
		r.add(ours, "longest heartbeat s", time.Duration(l.longest.Load()).Seconds())
		r.add(ours, "other claims lost", lostOf(held))
		return err
	},
}

// lostOf returns how many holds were lost.
func lostOf(holds ...*lock.Hold) (lost float64) {
	for _, hold := range holds {
		if hold.Err() != nil {
			lost++
		}
	}
	return lost
}

// idleHolds makes one client hold very many locks. An operator deletes the nodes of some of them.
var idleHolds = &benchCase{
	name: "idle-holds", servers: []int{1},
	about: "One client holds 10,000 locks with T = 10 s and does nothing else; then an operator deletes the nodes of 100 of them.",
	round: func(r *round) error {
		n, deletions := 10_000, 100
		l, err := r.loaded(r.server(0), idleTimeout)
		if err != nil {
			return err
		}
		heap, _ := live()
		holds, path := make([]*lock.Hold, n), r.path()
		began := time.Now()
		err = together(n, func(i int) error {
			mu, err := lock.New(l.Client, fmt.Sprintf("%s/%d", path, i), nil)
			if err == nil {
				holds[i], err = mu.Lock(r)
			}
			return err
		})
		if err != nil {
			return err
		}
		r.add(ours, "all locked s", time.Since(began).Seconds())
		after, _ := live()
		r.add(ours, "heap of a hold kB", float64(after-heap)/float64(n)/1000)
		if err := r.idling(ours, n); err != nil {
			return err
		}
		rand.Shuffle(n, func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
		admin, err := r.admin()
		if err != nil {
			return err
		}
		times := make([]time.Duration, deletions)
		err = together(deletions, func(i int) error {
			began := time.Now()
			if err := admin.Delete(holds[i].Path(), -1); err != nil {
				return err
			}
			select {
			case <-holds[i].Done():
			case <-r.Done():
			}
			times[i] = time.Since(began)
			return context.Cause(r)
		})
		if err != nil {
			return err
		}
		r.add(ours, "last notified s", quantile(times, 1).Seconds())
		// Without a proof of liveness, a claim reaches its deadline before the fifth heartbeat.
		err = l.beat(r, 5)
		r.add(ours, "other claims lost", lostOf(holds[deletions:]...))
		return err
	},
}

// runLoops makes one client call Run in many loops, which lead in turn without a pause, while other goroutines call Lock and the
// server has outages.
var runLoops = &benchCase{
	name: "run-loops", servers: []int{1},
	about: "100 loops of Run and 1,000 of Lock on one client, T = 4 s, across 10 outages of T/5: whether each loop leads again.",
	round: func(r *round) error {
		const loops, timeout = 100, 4 * time.Second
		proxy, err := docker.NewProxy(r.server(0))
		if err != nil {
			return err
		}
		r.cleanup(func() { _ = proxy.Close() })
		l, err := r.loaded(proxy.Addr(), timeout)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(r)
		var running sync.WaitGroup
		r.cleanup(func() {
			stop()
			running.Wait()
		})
		path := r.path()
		for i := range 10 * loops {
			mu, err := lock.New(l.Client, fmt.Sprintf("%s/lock-%d", path, i), nil)
			if err != nil {
				return err
			}
			running.Go(func() {
				for ctx.Err() == nil {
					if hold, err := mu.Lock(ctx); err == nil {
						_ = hold.Unlock(ctx) // load only: the hold may be lost
					}
				}
			})
		}
		var terms [loops]atomic.Int64
		var ended atomic.Int64
		for i := range loops {
			e, err := election.New(l.Client, fmt.Sprintf("%s/election-%d", path, i%(loops/2)), &election.Options{Owner: fmt.Sprint("loop-", i)})
			if err != nil {
				return err
			}
			running.Go(func() {
				err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
					_ = term.Check(ctx) // a lost term counts as well
					terms[i].Add(1)
					return nil
				})
				if ctx.Err() == nil {
					ended.Add(1)
					r.progress("Run has ended: %v", err)
				}
			})
		}
		leading := func() error {
			var before [loops]int64
			for i := range terms {
				before[i] = terms[i].Load()
			}
			return r.until("a term of each loop", func() (bool, error) {
				waiting := int64(0)
				for i := range terms {
					if terms[i].Load() == before[i] {
						waiting++
					}
				}
				return waiting <= ended.Load(), nil
			})
		}
		if err := leading(); err != nil {
			return err
		}
		var back []time.Duration
		for i := range r.size(10, 4) {
			if i%2 == 0 {
				proxy.Refuse()
			} else {
				proxy.Drop(docker.Both)
			}
			<-time.After(timeout / 5)
			proxy.Heal()
			began := time.Now()
			if err := leading(); err != nil {
				return err
			}
			back = append(back, time.Since(began))
		}
		r.add(ours, "loops ended", float64(ended.Load()))
		r.add(ours, "all led again s", quantile(back, 1).Seconds())
		return nil
	},
}
