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
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// runNemesis does what the plan says, and returns when all of it was taken back, or ctx has ended.
func (r *run) runNemesis(ctx context.Context) {
	var running sync.WaitGroup
	if slices.Contains(r.opts.Faults, "counter") {
		running.Go(func() { r.count("counter", r.checkCounter(ctx)) })
	}
	// Those of a plan from a file may be in any order.
	plan := slices.SortedStableFunc(slices.Values(r.opts.Plan), func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range plan {
		if r.until(ctx, f.At) != nil {
			break
		}
		running.Go(func() { r.fault(ctx, f) })
	}
	running.Wait()
}

// faultBound is how long it may take to break something, or to take that back.
const faultBound = 30 * time.Second

func (r *run) fault(ctx context.Context, f Fault) {
	note := func(format string, args ...any) {
		r.recorder.add(history.Event{At: r.time.Now(), Kind: history.Fault, Text: fmt.Sprintf(format, args...)})
	}
	note("%v", f)
	back, err := r.inject(ctx, f)
	if err == nil {
		timer := time.NewTimer(f.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		err = r.healFault(ctx, f, back)
	}
	r.count(f.Kind, err)
	if err != nil {
		note("%v was not done: %v", f, err)
		return
	}
	note("over: %v", f)
}

// inject tries for as long as the fault was to last: what it needs, a leader or a contender in line, may be missing for a
// moment, and another fault may be on what it is to hit. On error nothing is broken.
func (r *run) inject(ctx context.Context, f Fault) (heal, error) {
	for giveUp := r.time.Now() + history.Instant(f.For); ; {
		var back heal
		err := uninterrupted(ctx, func(ctx context.Context) (err error) {
			back, err = kinds[f.Kind].inject(ctx, r, f.Args, f.For)
			return err
		})
		if err == nil {
			return back, nil
		}
		if back != nil {
			// Half of it may be done: the links refused and the server not cut, or a kill that was only late.
			_ = r.healFault(ctx, f, back) // it is not done in any case
		}
		if errors.Is(err, docker.ErrUnsupported) || r.time.Now() > giveUp {
			return nil, err
		}
		if r.until(ctx, time.Duration(r.time.Now())+100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// healFault takes a fault back, or the half of one. It returns an error if there was none; that there was one and cannot be
// taken back is amiss.
func (r *run) healFault(ctx context.Context, f Fault, back heal) error {
	err := uninterrupted(ctx, back)
	switch {
	case errors.Is(err, errMissed):
		return err
	case err != nil && !errors.Is(err, docker.ErrUnsupported): // what cannot be taken back there could not be done either
		r.problemf("taking back %v: %v", f, err)
	}
	return nil
}

// uninterrupted does a part of a fault within faultBound, whether or not ctx ends meanwhile: what is begun is seen through, so
// that nothing is broken when the run ends.
func uninterrupted(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), faultBound)
	defer cancel()
	return f(ctx)
}

// checkCounter looks whether the counter of the counted path was planted near its end.
func (r *run) checkCounter(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(faultBound); ; {
		next, err := r.operator.counter(ctx, countedPath)
		if err == nil && next < counterPlanted {
			return fmt.Errorf("the next node at %s gets the number %d: it was to be %d at least", countedPath, next, counterPlanted)
		}
		if err == nil || errors.Is(err, docker.ErrUnsupported) || r.time.Now() > giveUp {
			return err
		}
		if r.until(ctx, time.Duration(r.time.Now())+100*time.Millisecond) != nil {
			return err
		}
	}
}

func (r *run) count(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.result.Faults[kind]
	if err == nil {
		n.Injected++
	} else {
		n.Missed++
		r.opts.Log("%s was not done: %v", kind, err)
	}
	r.result.Faults[kind] = n
}
