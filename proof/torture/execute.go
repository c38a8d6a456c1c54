// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// execute injects the faults, then stops the contenders and completes the history. The contenders stay connected until End is recorded:
// ZooKeeper deletes the nodes of a session that ends, also those that a client has left behind.
func (r *run) execute(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.background.Go(func() { r.progress(ctx) })
	r.runNemesis(ctx)
	if err := r.until(ctx, r.opts.Duration); err != nil {
		return err
	}
	r.opts.Log("all faults are healed; stopping contenders")
	steps := []func(context.Context) error{r.recover, r.stopContenders, r.probe}
	if r.isZooKeeper() {
		steps = append(steps, r.clear, r.stopReplicas, r.agree, r.countUp)
	}
	steps = append(steps, r.end, r.closeContenders)
	if r.isZooKeeper() {
		steps = append(steps, r.order)
	}
	for _, step := range steps {
		if err := r.continueAfter(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// continueAfter runs a step that follows the last fault. A failure is recorded as one of the harness: it is no reason to discard the
// history of an hour. continueAfter returns an error only if ctx has ended, because there is no result then.
func (r *run) continueAfter(ctx context.Context, step func(context.Context) error) error {
	err := step(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.failuref("%v", err)
	}
	return nil
}

// stopContenders stops the contenders, whose clients stay connected. Each client must be granted a lock once more; one that is not is
// reported as a problem.
func (r *run) stopContenders(ctx context.Context) error {
	for _, c := range r.contenders {
		c.send(worker.Stop)
	}
	var stopping sync.WaitGroup
	for _, c := range r.contenders {
		stopping.Go(func() { c.stop(ctx, 11*r.opts.Timeout+r.opts.expiry()+20*time.Second) })
	}
	stopping.Wait()
	return nil
}

// end closes the history, and adds when there was a quorum. It reads the clocks once more, because the servers' logs are dated by these readings.
func (r *run) end(context.Context) error {
	if r.quorum != nil {
		for _, e := range r.quorum.observed() {
			r.recorder.add(e)
		}
	}
	r.recorder.add(history.Event{At: r.time.Now(), Kind: history.End})
	r.clocks.read(r.time)
	return nil
}

// afterEnd is the time from End to the end of the contenders' sessions. It is longer than the error of the instants in the servers' logs, so
// that no node which a session's end deletes seems to be gone before.
const afterEnd = 100 * time.Millisecond

// closeContenders has the contenders close their clients and end.
func (r *run) closeContenders(ctx context.Context) error {
	if err := r.until(ctx, time.Duration(r.time.Now())+afterEnd); err != nil {
		return err
	}
	var closing sync.WaitGroup
	for _, c := range r.contenders {
		if !c.probes { // it has ended by itself
			closing.Go(func() { c.close(ctx, 2*r.opts.Timeout+20*time.Second) })
		}
	}
	closing.Wait()
	return nil
}

// order adds ZooKeeper's commit order to the history. If that fails, the logs that can be read are kept for investigation.
func (r *run) order(ctx context.Context) error {
	err := r.readCommitOrder(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read the commit order, without which findings about nodes mean nothing: %w", err),
			r.keepLogs(ctx))
	}
	if r.opts.tokenless() {
		return r.recorder.replaceTokens()
	}
	return nil
}

// keepLogs copies the logs of all servers that have any, if Options.Logs is set.
func (r *run) keepLogs(ctx context.Context) error {
	if r.opts.Logs == "" {
		return nil
	}
	var errs []error
	for _, server := range r.ensemble.Servers() {
		own := filepath.Join(r.opts.Logs, fmt.Sprint(server.ID()))
		if err := os.MkdirAll(own, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("transaction logs: %w", err))
			continue
		}
		errs = append(errs, server.SaveLogs(ctx, own))
	}
	return errors.Join(errs...)
}

// until waits until a time since the beginning of the run, or returns the cause of ctx.
func (r *run) until(ctx context.Context, at time.Duration) error {
	select {
	case <-time.After(at - time.Duration(r.time.Now())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// progress logs the state of the run every 10 s, until ctx ends.
func (r *run) progress(ctx context.Context) {
	every := time.NewTicker(10 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		r.clocks.read(r.time)
		r.mu.Lock()
		faults := 0
		for _, n := range r.result.Faults {
			faults += n.Injected
		}
		problems, failures := len(r.result.Problems), len(r.result.Failures)
		r.mu.Unlock()
		w := r.registers.Counts()
		r.opts.Log("%v of %v: %d grants, %d faults, %d writes; stale ones: the fenced registers rejected %d and accepted %d, the bare ones "+
			"accepted %d; %d problems, %d failures of the harness; the promises are judged at the end",
			time.Duration(r.time.Now()).Round(time.Second), r.opts.Duration, r.recorder.granted(), faults, w.All, w.Rejected,
			w.AcceptedByFenced, w.AcceptedByBare, problems, failures)
	}
}
