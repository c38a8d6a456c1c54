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
	// looks bounds a sweep: a write that looks at its context more often is interrupted at its first looks only.
	looks = 40

	// sweeps is the number of sweeps over a guard that is done with them within the time of settling. Whether a write that
	// goes on lands before the newer one or after it is the scheduler's decision each time.
	sweeps = 50

	// settling is how long the suite watches for a write that goes on after it has returned.
	settling = 250 * time.Millisecond
)

// An interruption is a context that ends when it is looked at for the n-th time. So a write can be interrupted at every
// point at which it notices.
type interruption struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64 // looks until it ends
}

// interruptedAt returns a context that ends at its n-th look.
func interruptedAt(parent context.Context, n int) *interruption {
	i := &interruption{}
	i.Context, i.cancel = context.WithCancel(parent)
	i.left.Store(int64(n))
	return i
}

func (i *interruption) look() {
	if i.left.Add(-1) == 0 {
		i.cancel()
	}
}

func (i *interruption) Done() <-chan struct{} {
	i.look()
	return i.Context.Done()
}

func (i *interruption) Err() error {
	i.look()
	return i.Context.Err()
}

// interruptedWriteIsOver ends the context of a write at its first look, at its second, and so on, until a write is not
// interrupted any more. A newer write follows each; no interrupted write lands after that. A write that failed for
// certain does not land at all: where the subject can tell, a second one is left without a successor.
func interruptedWriteIsOver(p *probe) {
	recent := p.another()
	want := map[string]string{}
	start := time.Now()
	for sweep := 0; sweep == 0 || sweep < sweeps && time.Since(start) < settling; sweep++ {
		for n, ended := 1, true; ended && n <= looks; n++ {
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
				p.t.Fatalf("value of %q is %q and was %q: a write went on after it had returned an error", resource, got, value)
			}
		}
	}
}

// interrupts writes resource with token 5, and with token 6 under a context that ends at its n-th look. It reports
// whether the context ended, and whether the subject says that the write failed for certain.
func (p *probe) interrupts(resource string, n int) (ended, failed bool) {
	p.t.Helper()
	p.admits(resource, 5, "five")
	ctx := interruptedAt(p.t.Context(), n)
	defer ctx.cancel()
	err := p.Write(ctx, resource, 6, "late")
	ended = ctx.Context.Err() != nil
	failed = err != nil && p.subject.Uncertain != nil && !p.subject.Uncertain(err)
	switch {
	case err == nil:
		p.holds(resource, "late")
	case !ended:
		p.t.Fatalf("write %q with token 6 after 5: %v, want it admitted", resource, err)
	case errors.Is(err, fencing.ErrStale) || errors.Is(err, fencing.ErrInvalid):
		p.t.Fatalf("write %q with token 6 after 5, its context ended at look %d: %v, want neither of them", resource, n, err)
	case failed:
		p.holds(resource, "five")
	}
	return ended, failed
}
