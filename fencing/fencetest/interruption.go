// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

const (
	// maxCalls bounds a sweep: a write that calls Done and Err more often is interrupted at its first calls only.
	maxCalls = 40

	// sweeps is the number of sweeps over a guard that completes them within the settling time. If a write continues after
	// it has returned, the scheduler decides each time whether it lands before or after the newer one.
	sweeps = 50

	// settling is how long the suite watches for a write that continues after it has returned.
	settling = 250 * time.Millisecond
)

// An interruption is a context that is cancelled at the n-th call of Done or Err. It interrupts a write at every point at
// which the write checks its context.
type interruption struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64 // calls until it is cancelled
}

// interruptedAt returns a context that is cancelled at the n-th call of Done or Err.
func interruptedAt(parent context.Context, n int) *interruption {
	i := &interruption{}
	i.Context, i.cancel = context.WithCancel(parent)
	i.left.Store(int64(n))
	return i
}

func (i *interruption) count() {
	if i.left.Add(-1) == 0 {
		i.cancel()
	}
}

func (i *interruption) Done() <-chan struct{} {
	i.count()
	return i.Context.Done()
}

func (i *interruption) Err() error {
	i.count()
	return i.Context.Err()
}

// interruptedWriteHasEnded cancels the context of a write at the first call of Done or Err, at the second, and so on, until
// a write is not interrupted. A newer write follows each; no interrupted write lands after that. A write that failed for
// certain does not land at all: if the subject can distinguish these, the check repeats the interrupted write without a
// newer one after it.
func interruptedWriteHasEnded(p *probe) {
	recent := p.another()
	want := map[string]string{}
	start := time.Now()
	for sweep := 0; sweep == 0 || sweep < sweeps && time.Since(start) < settling; sweep++ {
		for n, ended := 1, true; ended && n <= maxCalls; n++ {
			resource := fmt.Sprintf("interrupted %d in sweep %d", n, sweep)
			ended, _ = p.interrupts(resource, n)
			if err := recent.Write(p.t.Context(), resource, 9, "nine"); err != nil {
				p.t.Fatalf("write %q with token 9 after an interrupted write with token 6: %v, want it admitted", resource, err)
			}
			want[resource] = "nine"
			if p.subject.Uncertain != nil {
				left := fmt.Sprintf("left %d in sweep %d", n, sweep)
				if _, failed := p.interrupts(left, n); failed {
					want[left] = "five"
				}
			}
		}
	}
	for start := time.Now(); time.Since(start) < settling; runtime.Gosched() {
		for resource, value := range want {
			if got := p.value(resource); got != value {
				p.t.Fatalf("value of %q is %q and was %q: a write continued after it had returned an error", resource, got, value)
			}
		}
	}
}

// interrupts writes resource with token 5, and then with token 6 under a context that is cancelled at its n-th call of Done
// or Err. It reports whether the context ended, and whether the subject declares that the write failed for certain.
func (p *probe) interrupts(resource string, n int) (ended, failed bool) {
	p.t.Helper()
	p.admits(resource, 5, "five")
	ctx := interruptedAt(p.t.Context(), n)
	defer ctx.cancel()
	err := p.Write(ctx, resource, 6, "interrupted")
	ended = ctx.Context.Err() != nil
	failed = err != nil && p.subject.Uncertain != nil && !p.subject.Uncertain(err)
	switch {
	case err == nil:
		p.holds(resource, "interrupted")
	case !ended:
		p.t.Fatalf("write %q with token 6 after 5: %v, want it admitted", resource, err)
	case errors.Is(err, fencing.ErrStale) || errors.Is(err, fencing.ErrInvalid):
		p.t.Fatalf("write %q with token 6 after 5, its context cancelled at call %d: %v, want an error that is neither stale nor invalid", resource, n, err)
	case failed:
		p.holds(resource, "five")
	}
	return ended, failed
}
