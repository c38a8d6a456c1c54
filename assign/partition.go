// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/backoff"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A partition is assigned to the member of a run, or was, and its work has not returned. One goroutine queues for it and calls its work, one call
// after the other.
type partition struct {
	run   *run
	name  string
	ctx   context.Context         // done when the newest record does not name the partition, or Run ends; nil after the former. The run's mu guards it
	moved context.CancelCauseFunc // of ctx
}

// next returns the context of the next claim, nil if the partition is no longer assigned to the member: then it is forgotten.
func (p *partition) next() context.Context {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	if p.ctx == nil || p.run.ctx.Err() != nil {
		delete(p.run.partitions, p.name)
		return nil
	}
	return p.ctx
}

// loop owns the partition again and again, for as long as it is assigned to the member.
func (p *partition) loop() {
	q, err := p.run.queue(p.name)
	if err != nil {
		p.run.failed(err)
	}
	backoff := p.run.opts.backoff()
	for ctx := p.next(); ctx != nil; ctx = p.next() {
		if running := p.run.running(p.name); running != nil {
			select {
			case <-running:
			case <-ctx.Done():
				continue
			}
		}
		pause := p.once(ctx, q, &backoff)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// once claims the partition, runs its work, and releases the claim. It returns how long to wait before the next claim.
func (p *partition) once(ctx context.Context, q *queue.Queue, backoff *backoff.Backoff) (pause time.Duration) {
	claim, err := q.Claim(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0
	case errors.Is(err, recipes.ErrClosed):
		p.run.failed(err)
		return 0
	case err != nil:
		p.retry(err)
		return backoff.Failed(0)
	case ctx.Err() != nil: // the newest record does not name it
		q.Abandon(claim)
		return 0
	}
	o := &Ownership{Claim: claim, partition: p.name, ended: make(chan struct{})}
	began := time.Now()
	err, early := p.own(ctx, q, o)
	switch {
	case err != nil:
		p.retry(err)
		return backoff.Failed(time.Since(began))
	case early:
		return backoff.Failed(time.Since(began))
	}
	backoff.Succeeded()
	return 0
}

// uncertain records that a node of the partition may be left when Run ends.
func (p *partition) uncertain() {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	p.run.uncertain = append(p.run.uncertain, p.name)
}

// retry passes an error to Retry, and ends Run with it if Retry rejects it.
func (p *partition) retry(err error) {
	accepted := false
	panicked := call(func() error { accepted = p.run.opts.Retry(p.name, err); return nil })
	if !accepted {
		p.run.failed(errors.Join(fmt.Errorf("partition %q: %w", p.name, err), panicked))
	}
}

// own runs the work of an ownership, and releases the claim when the work has returned. It returns the error with which the work failed, and
// whether the work returned although its context was not done.
func (p *partition) own(ctx context.Context, q *queue.Queue, o *Ownership) (failure error, early bool) {
	workCtx, cancel := o.Context(ctx)
	defer cancel()
	p.run.add(o)
	results := start(func() error {
		defer p.run.remove(o)
		return p.run.work(workCtx, o)
	})
	err, returned := await(workCtx, results, p.run.opts.StopTimeout)
	if !returned {
		go releaseAfter(context.WithoutCancel(ctx), q, o, results)
		p.run.failed(&recipes.Error{Op: "stop", Path: o.Path(), Err: err})
		return nil, false
	}
	lost, moved := o.Err() != nil, ctx.Err() != nil
	cause := context.Cause(workCtx)
	cancel()
	released := q.Release(ctx, o.Claim)
	switch {
	case errors.Is(released, recipes.ErrLost):
		lost = true
	case errors.Is(released, recipes.ErrUncertain):
		p.uncertain()
	case released != nil: // by a server: the node stays until the session ends
		p.retry(released)
	}
	if !lost && !moved {
		return err, true
	}
	switch {
	case p.run.ctx.Err() != nil && errors.Is(err, recipes.ErrUncertain):
		// An operation that the end of Run has cut short may have been carried out, and no later call of work finds out.
		p.run.failed(fmt.Errorf("partition %q: %w", p.name, err))
	case !isStop(err, cause):
		return err, false
	}
	return nil, false
}

// isStop reports whether work ended because it had to stop.
func isStop(err, cause error) bool {
	for _, expected := range []error{nil, cause, context.Canceled, context.DeadlineExceeded, recipes.ErrLost, fencing.ErrStale, ErrMoved} {
		if errors.Is(err, expected) {
			return true
		}
	}
	return false
}

// await waits for the result of work, without bound while its context is open. If it has not returned by the stop timeout after that, the error is
// ErrOverrun.
func await(workCtx context.Context, results <-chan error, stopTimeout time.Duration) (err error, returned bool) {
	select {
	case err := <-results:
		return err, true
	case <-workCtx.Done():
	}
	if stopTimeout == 0 {
		return <-results, true
	}
	select {
	case err := <-results:
		return err, true
	case <-time.After(stopTimeout):
		return fmt.Errorf("%w: %v after its context was done (%w)", election.ErrOverrun, stopTimeout, context.Cause(workCtx)), false
	}
}

// releaseAfter releases the claim of work that did not stop, once it has returned: as long as it goes on, no other member may own
// the partition. Run has returned, and the process is to exit, which ends both.
func releaseAfter(ctx context.Context, q *queue.Queue, o *Ownership, results <-chan error) {
	<-results                   //nolint:errcheck // Run has returned
	_ = q.Release(ctx, o.Claim) // the session's end is the bound
}
