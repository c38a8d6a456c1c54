// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

var (
	uncontended = &benchCase{
		name: "uncontended", servers: []int{1, 3},
		about: "One client locks and unlocks a free lock, again and again: the most that a lock costs a program that never waits.",
		round: func(r *round) error { return r.cycles(everyOne, setup{sessions: 1, locks: 1, timeout: quiet}) },
	}
	oneSession = &benchCase{
		name: "64-locks-one-session", servers: []int{1, 3},
		about: "64 goroutines or threads of one process lock and unlock a lock each: what a busy process gets out of its session.",
		round: func(r *round) error { return r.cycles(everyOne, setup{sessions: 1, locks: 64, timeout: quiet}) },
	}
	handOff8  = handOffs(8)
	handOff32 = handOffs(32)
)

func handOffs(sessions int) *benchCase {
	return &benchCase{
		name: fmt.Sprintf("hand-off-%d", sessions), servers: []int{1, 3},
		about: fmt.Sprintf("%d processes lock and unlock the same lock without a pause: how often a contended lock changes hands.", sessions),
		round: func(r *round) error {
			return r.cycles(everyOne, setup{sessions: sessions, locks: 1, timeout: quiet, contended: true})
		},
	}
}

// cycles measures the cycles of libraries in turns, so that a disturbance affects all of them, then counts the packets and bytes
// of each alone.
func (r *round) cycles(libraries []library, s setup) error {
	all, err := r.open(libraries, s)
	if err != nil {
		return err
	}
	order, sizes := names(all), map[string]int{}
	slice := r.during(time.Second) // to warm up; a turn takes a quarter of it
	for _, name := range order {   // the path is known from here on, and Java's compiler has run
		r.progress("warm up %s", name)
		if sizes[name], err = sized(all[name], slice); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	rates, slowest := map[string][]float64{}, map[string][]float64{}
	for turn := range r.size(5, 3) {
		for i := range order {
			name := order[(i+turn+r.number)%len(order)]
			c, err := all[name].cycle(sizes[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			rates[name] = append(rates[name], c.rate())
			if c.each != nil {
				slowest[name] = append(slowest[name], millis(quantile(c.each, 0.99)))
			}
		}
	}
	for _, name := range order {
		r.add(name, "rate", median(rates[name]))
		if slowest[name] != nil {
			r.add(name, "p99 ms", median(slowest[name]))
		}
	}
	for _, l := range libraries {
		if all[l.name] != nil {
			if err := r.count(l, all[l.name], r.size(20, 5)); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	r.compare("rate", order, bare)
	r.compare("rate", []string{ours}, zkLock)
	r.compare("p99 ms", []string{ours}, bare)
	r.compare("allocations", []string{ours}, zkLock)
	return nil
}

// sized warms a library up and returns how many cycles of each worker take a slice of time.
func sized(o *opened, slice time.Duration) (n int, err error) {
	n = 1
	for began := time.Now(); time.Since(began) < slice; {
		c, err := o.cycle(n)
		if err != nil {
			return 0, err
		}
		n = max(1, int(float64(n)*float64(slice)/4/float64(c.took+1)))
		n = min(n, 10_000)
	}
	return n, nil
}

// A cost is what cycles cost: packets, bytes from the servers, and allocations of this process.
type cost struct {
	counters
	bytes, allocations int64
}

// count adds what one more cycle costs: the difference between many cycles and few, whose first and last ones cost the same.
func (r *round) count(l library, o *opened, n int) error {
	if l.own {
		return nil
	}
	few, cycles, err := r.cost(o, n)
	if err != nil {
		return err
	}
	many, more, err := r.cost(o, 3*n)
	if err != nil {
		return err
	}
	per := func(few, many int64) float64 { return float64(many-few) / float64(more-cycles) }
	r.add(l.name, "requests", per(few.received, many.received))
	r.add(l.name, "answers", per(few.sent, many.sent))
	if o.lock != nil {
		r.add(l.name, "bytes", per(few.bytes, many.bytes))
		r.add(l.name, "allocations", per(few.allocations, many.allocations))
	}
	return nil
}

// cost returns what n cycles of each worker cost, and the number of cycles.
func (r *round) cost(o *opened, n int) (cost, int, error) {
	before, err := r.settled()
	if err != nil {
		return cost{}, 0, err
	}
	var memory, memoryAfter runtime.MemStats
	bytes := o.received.Load()
	runtime.ReadMemStats(&memory)
	c, err := o.cycle(n)
	if err != nil {
		return cost{}, 0, err
	}
	runtime.ReadMemStats(&memoryAfter)
	bytes = o.received.Load() - bytes
	after, err := r.settled()
	return cost{after.minus(before), bytes, int64(memoryAfter.Mallocs - memory.Mallocs)}, c.n, err //nolint:gosec // far below the largest int64
}

// handOver measures one hand-over at a time. After a long wait, a proof of liveness may be due first.
var handOver = &benchCase{
	name: "hand-over", servers: []int{1, 3},
	about: "One process releases a lock for which one other waits: how long the lock is free, after a short wait, and after one that is longer than half the session timeout.",
	round: func(r *round) error {
		all, err := r.open(append(slices.Clone(onZooKeeper), etcd, redsyncLock), setup{sessions: 2, locks: 1, timeout: 4 * time.Second, contended: true})
		if err != nil {
			return err
		}
		order, times := names(all), map[string][]time.Duration{}
		for turn := range r.size(200, 40) {
			for i := range order {
				name := order[(i+turn)%len(order)]
				took, err := r.handOver(all[name], 0)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				times[name] = append(times[name], took)
			}
		}
		long := map[string][]time.Duration{}
		for range r.size(10, 3) {
			err := together(len(order), func(i int) error {
				took, err := r.handOver(all[order[i]], 2400*time.Millisecond)
				r.mu.Lock()
				defer r.mu.Unlock()
				long[order[i]] = append(long[order[i]], took)
				return err
			})
			if err != nil {
				return err
			}
		}
		for _, name := range order {
			r.add(name, "p50 ms", millis(median(times[name])))
			r.add(name, "p50 ms after a long wait", millis(median(long[name])))
		}
		r.compare("p50 ms", []string{ours}, zkLock)
		r.compare("p50 ms after a long wait", []string{ours}, zkLock)
		return nil
	},
}

// handOver returns how long it took from the release by the first worker to the grant of the second one, which had waited.
func (r *round) handOver(o *opened, wait time.Duration) (time.Duration, error) {
	release, err := o.lock(r, 0)
	if err != nil {
		return 0, err
	}
	type grant struct {
		at      time.Time
		release unlock
		err     error
	}
	granted := make(chan grant, 1)
	go func() {
		release, err := o.lock(r, 1)
		granted <- grant{time.Now(), release, err}
	}()
	select { // the next contender is queued by then
	case <-time.After(20*time.Millisecond + wait):
	case g := <-granted:
		return 0, fmt.Errorf("granted beside a holder: %w", g.err)
	}
	began := time.Now()
	if err := release(r); err != nil {
		return 0, err
	}
	g := <-granted
	if g.err != nil {
		return 0, g.err
	}
	return g.at.Sub(began), g.release(r)
}

var tryLocks = &benchCase{
	name: "try-locks", servers: []int{1, 3},
	about: "8 processes call TryLock on a lock that another one holds: what polling costs the servers.",
	round: func(r *round) error {
		s := setup{sessions: 9, locks: 1, timeout: quiet}
		for _, l := range []library{lockkeeper, etcd, redsyncLock} {
			all, err := r.open([]library{l}, s)
			if err != nil {
				return err
			}
			o := all[l.name]
			if o == nil {
				continue
			}
			release, err := o.lock(r, 8)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			refused := func(n int) error {
				return together(8, func(worker int) error {
					for range n {
						if err := o.try(r, worker); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := refused(5); err != nil { // the path is known from here on
				return fmt.Errorf("%s: %w", l.name, err)
			}
			before, err := r.settled()
			if err != nil {
				return err
			}
			n := r.size(500, 100)
			began := time.Now()
			if err := refused(n); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			r.add(l.name, "rate", float64(8*n)/time.Since(began).Seconds())
			after, err := r.settled()
			if err != nil {
				return err
			}
			if !l.own {
				r.add(l.name, "requests", float64(after.minus(before).received)/float64(8*n))
				r.add(l.name, "writes", float64(after.minus(before).transactions)/float64(8*n))
			}
			if err := release(r); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		return nil
	},
}
