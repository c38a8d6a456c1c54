// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

const (
	// rounds is the minimum number of races: enough to detect a guard that yields between its check and its write, and few
	// enough for a guard that syncs a disk.
	rounds = 60

	// provoked is the minimum duration of the races. A guard that writes within nanoseconds has an equally short window. A
	// hundred rounds detect one mutex that is locked separately for check and write, and half a second has thousands.
	provoked = 500 * time.Millisecond

	// A guard of which one round took less than quick has at least quickRounds. Half a second of a machine whose processors
	// are busy has twenty rounds, of which each detects such a mutex with a probability of 1/250.
	quick       = 100 * time.Microsecond
	quickRounds = 2000

	// writers is the number of goroutines of the old holder that write at the same time. The newer holder can overtake each
	// of them that waits between check and write.
	writers = 4

	// crowded bounds the writes of one writer in a round with contention.
	crowded = 300
)

// newerWinsTheRace has an old holder write repeatedly while the new holder writes once, in many rounds. The number of writes
// and the delays between them come from a seed that is the same in every run. The scheduler decides their order.
//
// The first rounds are short, for guards that take milliseconds. In later rounds, the writers of the old holder continue
// until the new holder has written, so that its write always meets contention.
func newerWinsTheRace(p *probe) { p.races("newer") }

// Both holders write one value: a guard that compares the value in place of the token cannot distinguish their writes.
func newerWinsTheRaceWithOneValue(p *probe) { p.races("older") }

// races has the new holder write value; the old holder writes "older".
func (p *probe) races(value string) {
	p.t.Helper()
	old, recent := p.Guarded, p.another()
	start, shortest := time.Now(), time.Hour
	for seed := uint64(0); seed < rounds || time.Since(start) < provoked || shortest < quick && seed < quickRounds; seed++ {
		began := time.Now()
		p.race(seed, old, recent, value)
		shortest = min(shortest, time.Since(began))
	}
}

func (p *probe) race(seed uint64, old, recent Guarded, want string) {
	p.t.Helper()
	const older, newer = fencing.Token(4294967311), fencing.Token(4294967330)
	var (
		resource = fmt.Sprintf("race %d", seed)
		random   = rand.New(rand.NewPCG(seed, 1))
		ctx      = p.t.Context()
		start    = make(chan struct{})
		written  atomic.Bool // the newer write has returned
		stale    [writers]error
		err      error
		group    sync.WaitGroup
	)
	for i := range writers {
		least, most := 1+random.IntN(4), crowded
		if seed < rounds {
			most = least
		}
		group.Go(func() {
			<-start
			for n := 0; n < least || n < most && !written.Load(); n++ {
				after := written.Load()
				e := old.Write(ctx, resource, older, "older")
				switch {
				case e == nil && after:
					stale[i] = errors.New("the older token was admitted after the write of the newer token had returned")
				case e != nil && !errors.Is(e, fencing.ErrStale):
					stale[i] = fmt.Errorf("older write: %w, want it admitted or stale", e)
				}
			}
		})
	}
	lead := random.IntN(20)
	group.Go(func() {
		<-start
		for range lead {
			runtime.Gosched()
		}
		err = recent.Write(ctx, resource, newer, want)
		written.Store(true)
	})
	close(start)
	group.Wait()
	if err != nil {
		p.t.Fatalf("round of seed %d: newer write: %v, want it admitted", seed, err)
	}
	if err := errors.Join(stale[:]...); err != nil {
		p.t.Fatalf("round of seed %d: %v", seed, err)
	}
	if value := p.value(resource); value != want {
		p.t.Fatalf("round of seed %d: value is %q, want the value of the newer token", seed, value)
	}
	p.refuses(resource, older, newer)
}
