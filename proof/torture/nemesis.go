// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// runNemesis injects the faults of the plan. It returns when all are healed, or when ctx has ended and the faults in progress
// are healed.
func (r *run) runNemesis(ctx context.Context) {
	var running sync.WaitGroup
	if slices.Contains(r.opts.Faults, "counter") {
		running.Go(func() { r.count("counter", r.checkCounter(ctx)) })
	}
	// A plan from a file may list its faults in any order.
	plan := slices.SortedStableFunc(slices.Values(r.opts.Plan), func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range plan {
		if r.until(ctx, f.At) != nil {
			break
		}
		running.Go(func() { r.fault(ctx, f) })
	}
	running.Wait()
}

// fault injects a fault, heals it after its time, and counts it.
func (r *run) fault(ctx context.Context, f Fault) {
	note := func(format string, args ...any) {
		r.recorder.add(history.Event{At: r.time.Now(), Kind: history.Fault, Text: fmt.Sprintf(format, args...)})
	}
	note("%v", f)
	undo, err := r.inject(ctx, f)
	if err == nil {
		timer := time.NewTimer(f.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		err = r.healFault(ctx, f, undo)
	}
	r.count(f.Kind, err)
	if err != nil {
		note("not injected: %v: %v", f, err)
		return
	}
	note("over: %v", f)
}

// inject injects a fault. It retries for the planned duration of the fault: what the fault needs, a leader or a queued
// contender, may be missing for a moment, and another fault may have reserved its target. On error, nothing is left broken.
func (r *run) inject(ctx context.Context, f Fault) (heal, error) {
	for giveUp := r.time.Now() + history.Instant(f.For); ; {
		var undo heal
		err := uninterrupted(ctx, func(ctx context.Context) (err error) {
			undo, err = kinds[f.Kind].inject(ctx, r, f.Args, f.For)
			return err
		})
		if err == nil {
			return undo, nil
		}
		if undo != nil {
			// A part of the fault may have taken effect: the links refuse and the server is not partitioned, or a kill was slow.
			_ = r.healFault(ctx, f, undo) // the fault counts as missed in any case
		}
		if errors.Is(err, docker.ErrUnsupported) || r.time.Now() > giveUp {
			return nil, err
		}
		if r.until(ctx, time.Duration(r.time.Now())+100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// healFault heals a fault, or the part of it that took effect. It returns an error if the fault had no effect. A fault that
// cannot be healed is a failure of the harness.
func (r *run) healFault(ctx context.Context, f Fault, undo heal) error {
	err := uninterrupted(ctx, undo)
	switch {
	case errors.Is(err, errMissed):
		return err
	case err != nil && !errors.Is(err, docker.ErrUnsupported): // a fault that cannot be healed there could not be injected either
		r.failuref("heal %v: %v", f, err)
	}
	return nil
}

// uninterrupted runs one step of a fault, with the timeout faultBound, also when ctx ends meanwhile: a step that has begun is
// completed, so that nothing is broken when the run ends.
func uninterrupted(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), faultBound)
	defer cancel()
	return f(ctx)
}

// checkCounter checks that the sequence counter of the counted path starts near its maximum.
func (r *run) checkCounter(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(faultBound); ; {
		next, err := r.operator.counter(ctx, r.opts.countedPath())
		if err == nil && next < counterPlanted {
			return fmt.Errorf("counter of %s: the next sequence number is %d, want at least %d", r.opts.countedPath(), next, counterPlanted)
		}
		if err == nil || errors.Is(err, docker.ErrUnsupported) || r.time.Now() > giveUp {
			return err
		}
		if r.until(ctx, time.Duration(r.time.Now())+100*time.Millisecond) != nil {
			return err
		}
	}
}

// count counts a fault: with an error, as one that was not injected.
func (r *run) count(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.result.Faults[kind]
	if err == nil {
		n.Injected++
	} else {
		n.Missed++
		r.opts.Log("fault %s: not injected: %v", kind, err)
	}
	r.result.Faults[kind] = n
}
