// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func init() {
	tasks = append(tasks, task{"barriers", func(s *Spec) bool { return s.Barrier != "" }, meet})
}

// meet waits at the barriers of the run, and reports what it does there.
func meet(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error {
	b, err := barrier.New(client, spec.Barrier, nil)
	if err != nil {
		return err
	}
	d, err := barrier.NewDouble(client, spec.Double, spec.DoubleSize, nil)
	if err != nil {
		return err
	}
	parts := []func(*visitor) error{
		func(v *visitor) error { return v.pass(b) },
		func(v *visitor) error { return v.round(d) },
	}
	if spec.SetsBarrier {
		parts = append(parts, func(v *visitor) error { return v.setAndRemove(b) })
	}
	// An error ends all parts: the run has failed.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(parts))
	var meeting sync.WaitGroup
	for i, part := range parts {
		meeting.Go(func() {
			v := &visitor{ctx, spec, report, rand.New(rand.NewPCG(spec.Seed, 1<<32+uint64(i)))}
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = part(v)
			}
			cancel()
		})
	}
	meeting.Wait()
	return errors.Join(errs...)
}

// A visitor does one thing at a barrier, again and again.
type visitor struct {
	ctx    context.Context
	spec   *Spec
	report func(history.Event)
	rand   *rand.Rand
}

// bounded calls an operation, which may fail if its time has ended: others do not come while they are down. done reports whether
// it succeeded. Now and then the time is so short that the visitor gives up without a fault.
func (v *visitor) bounded(operation func(context.Context) error) (done bool, err error) {
	patience := 2 * time.Duration(v.spec.Timeout)
	if v.rand.IntN(8) == 0 {
		patience = time.Millisecond + v.upTo(200*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	err = operation(ctx)
	if err != nil && (ctx.Err() != nil || errors.Is(err, recipes.ErrUncertain)) {
		return false, nil
	}
	return err == nil, err
}

// upTo draws a duration.
func (v *visitor) upTo(most time.Duration) time.Duration {
	return time.Duration(v.rand.Int64N(int64(most)))
}

// pause waits for up to most.
func (v *visitor) pause(most time.Duration) {
	select {
	case <-time.After(v.upTo(most)):
	case <-v.ctx.Done():
	}
}

// setAndRemove sets the barrier and removes it.
func (v *visitor) setAndRemove(b *barrier.Barrier) error {
	if _, err := v.bounded(b.Set); err != nil {
		return err
	}
	v.pause(time.Second)
	if _, err := v.bounded(b.Remove); err != nil {
		return err
	}
	v.pause(100 * time.Millisecond)
	return nil
}

// pass waits for the barrier.
func (v *visitor) pass(b *barrier.Barrier) error {
	by := history.Event{Kind: history.Waiting, Path: b.Path()}
	v.report(by)
	passed, err := v.bounded(b.Wait)
	if passed {
		by.Kind = history.Passed
		v.report(by)
	}
	v.pause(500 * time.Millisecond)
	return err
}

// round enters a round of the double barrier and leaves it.
func (v *visitor) round(d *barrier.Double) error {
	by := history.Event{Kind: history.Entering, Path: d.Path()}
	v.report(by)
	var r *barrier.Round
	is, err := v.bounded(func(ctx context.Context) (err error) {
		r, err = d.Enter(ctx)
		return err
	})
	if is {
		by.Kind, by.Node, by.Limit = history.Entered, r.Path(), d.Size()
		v.report(by)
		v.pause(100 * time.Millisecond)
		by.Kind, by.Limit = history.Leaving, 0
		v.report(by)
		if is, err = v.bounded(r.Leave); is {
			by.Kind = history.Left
			v.report(by)
		}
	}
	v.pause(500 * time.Millisecond)
	return err
}
