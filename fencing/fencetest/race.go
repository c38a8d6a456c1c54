// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// rounds is enough for a guard that yields between check and write to be caught, and few enough for one that syncs.
const rounds = 60

// writers of the old holder write side by side: the more of them wait between check and write, the likelier one is
// overtaken there.
const writers = 4

// newerWinsTheRace has an old holder write again and again while the new one writes once, in many rounds. How often and
// how far apart comes of a seed that stays the same from run to run; where they meet is left to the scheduler.
func newerWinsTheRace(p *probe) {
	old, recent := p.Guarded, p.another()
	for seed := range uint64(rounds) {
		p.race(seed, old, recent)
	}
}

func (p *probe) race(seed uint64, old, recent Guarded) {
	p.t.Helper()
	const older, newer = fencing.Token(4294967311), fencing.Token(4294967330)
	var (
		resource = fmt.Sprintf("race %d", seed)
		random   = rand.New(rand.NewPCG(seed, 1))
		ctx      = p.t.Context()
		start    = make(chan struct{})
		written  atomic.Bool // the newer write has returned
		late     [writers]error
		err      error
		group    sync.WaitGroup
	)
	for i := range writers {
		writes := 1 + random.IntN(4)
		group.Go(func() {
			<-start
			for range writes {
				after := written.Load()
				e := old.Write(ctx, resource, older, "older")
				switch {
				case e == nil && after:
					late[i] = errors.New("the older token was admitted after the newer one's write had returned")
				case e != nil && !errors.Is(e, fencing.ErrStale):
					late[i] = fmt.Errorf("older write: %w, want it admitted or stale", e)
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
		err = recent.Write(ctx, resource, newer, "newer")
		written.Store(true)
	})
	close(start)
	group.Wait()
	if err != nil {
		p.t.Fatalf("round of seed %d: newer write: %v, want it admitted", seed, err)
	}
	if err := errors.Join(late[:]...); err != nil {
		p.t.Fatalf("round of seed %d: %v", seed, err)
	}
	if value := p.value(resource); value != "newer" {
		p.t.Fatalf("round of seed %d: value is %q, want that of the newer token", seed, value)
	}
	p.refuses(resource, older, newer)
}
