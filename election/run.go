// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Run campaigns, and runs work for each term that it wins, until ctx is done or
// work fails.
//
// The context that work gets is done when ctx is done, the term is lost or handed over, or
// Options.Health failed; context.Cause returns which. A term ends in this order: the work's context is
// cancelled; Run waits until work has returned; the node is deleted, so that
// another candidate can lead; Run waits for the cool-down; it campaigns again. So
// the work of one term never overlaps the work of the next term of this process. It
// overlaps the work of another process only if it continues after its context is done.
//
// After a term that was lost or handed over, or work that returned nil, Run campaigns again. It
// returns
//
//   - nil when ctx is done, work has returned no error other than the cancellation
//     or the loss, and every node of the election that this client no longer wants
//     is gone. Otherwise the error joins work's with recipes.ErrUncertain, if
//     a release was not confirmed, or with the error with which a server refused. If
//     work itself returned ErrUncertain, that is always in the error then;
//   - the error of work, unless it is the loss of the term or Options.Retry has it
//     retried. ErrLost, a cancellation and fencing.ErrStale count as the loss of the
//     term if the term was lost, which Run detects when it resigns at the latest;
//   - ErrOverrun when work has not returned within the stop timeout after its context
//     was done. The work continues, and its node stays until it has returned, for as
//     long as the session lives. Exit the process;
//   - ErrUnhealthy, when Options.Health failed, unless Options.Retry has it retried. The
//     work's context was cancelled with that error as its cause, and the term resigned
//     after the work had returned;
//   - recipes.ErrClosed when the client was closed; a *recipes.UnreleasedError when
//     Options.Fence failed; or the error with which a server refuses.
//
// Once ctx is done, Run returns within the stop timeout plus the release timeout, even
// if no server can be reached, or later by twice the health timeout if a check does not
// answer. While it is a candidate, and has no work to stop, it
// returns within the release timeout plus three eighths of the session timeout T. The
// default stop timeout has no bound, and the default release timeout is T. For a process
// that is killed 30 s after its SIGTERM, as Kubernetes does by default, T = 10 s, a
// StopTimeout of 15 s and the default ReleaseTimeout fit: Run returns within 25 s, and
// Client.Close within about one second more. With a longer T, set ReleaseTimeout too.
//
// A panic of work passes through Run as a *PanicError, after the term was resigned. A
// panic after ErrOverrun ends the process.
func (e *Election) Run(ctx context.Context, work func(ctx context.Context, term *Term) error) error {
	if work == nil {
		return &recipes.Error{Op: "run", Path: e.queue.Path(), Err: errors.New("work is nil")}
	}
	if err := e.run(ctx, work); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func (e *Election) run(ctx context.Context, work func(ctx context.Context, term *Term) error) error {
	backoff := e.backoff
	for {
		term, err := e.Campaign(ctx)
		switch {
		case err != nil && ctx != nil && ctx.Err() != nil:
			// Campaign has waited for the deletion of its node, and its error is ctx's.
			return e.queue.Settle(ctx)
		case err != nil:
			return err
		}
		began := time.Now()
		end, err := e.serve(ctx, term, work)
		uncertain := errors.Is(end.release, recipes.ErrUncertain)
		pause := e.coolDown
		switch {
		case err != nil:
			return err
		case end.release != nil && (ctx.Err() != nil || !uncertain):
			return errors.Join(end.failure, end.release)
		case ctx.Err() != nil:
			return errors.Join(end.failure, e.queue.Settle(context.WithoutCancel(ctx)))
		case end.failure == nil:
			backoff.Succeeded()
		case e.retry == nil || !e.retry(end.failure):
			return errors.Join(end.failure, end.release)
		default:
			pause = max(pause, backoff.Failed(time.Since(began)))
		}
		// A node whose release was not confirmed is deleted in the background, or ends
		// with its session: the next campaign queues behind it.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return e.queue.Settle(context.WithoutCancel(ctx))
		}
	}
}

// A result describes how a function of the user ended.
type result struct {
	err      error
	panicked *PanicError
	exited   bool // by runtime.Goexit
}

// A PanicError is the value of the panic with which Run passes on a panic of its work.
type PanicError struct {
	Value any    // the value with which the work panicked
	Stack []byte // the stack of the work
}

// Error returns the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("work panicked: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, ok := e.Value.(error)
	if !ok {
		return nil
	}
	return err
}

// serve runs work for one term, and ends the term. Its error is that the work or a health
// check did not stop.
func (e *Election) serve(ctx context.Context, term *Term, work func(context.Context, *Term) error) (ending, error) {
	workCtx, cancel := term.Context(ctx)
	defer cancel()
	workCtx, end := context.WithCancelCause(workCtx)
	defer end(nil)
	term.stop.Store(&end)
	checkup := e.health.begin(workCtx, end)
	results := start(func() error { return work(workCtx, term) })
	r, err := e.await(workCtx, results)
	if err != nil {
		go resignAfter(context.WithoutCancel(ctx), term, results, checkup)
		return ending{}, &recipes.Error{Op: "stop", Path: term.Path(), Err: err}
	}
	lost := term.Err() != nil
	handedOver := errors.Is(context.Cause(workCtx), ErrHandedOver)
	cancel()
	resigned := term.Resign(ctx)
	unhealthy, blocked := checkup.wait()
	switch {
	case r.panicked != nil:
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	ended := endingOf(r.err, resigned, unhealthy, lost || handedOver, ctx.Err() != nil, context.Cause(ctx))
	if blocked != nil {
		err := &recipes.Error{Op: "check health", Path: term.Path(), Err: blocked}
		return ending{}, errors.Join(err, ended.failure, ended.release)
	}
	return ended, nil
}

// start runs f on a goroutine, whose result comes on the channel.
func start(f func() error) <-chan result {
	results := make(chan result, 1)
	go func() {
		r := result{exited: true}
		defer func() {
			if value := recover(); value != nil {
				r = result{panicked: &PanicError{Value: value, Stack: debug.Stack()}}
			}
			results <- r
		}()
		r.err = f()
		r.exited = false
	}()
	return results
}

// resignAfter resigns the term of work that did not stop, once it has returned: as long as
// it goes on, no other candidate may lead. A process that exits, as ErrOverrun
// requires, ends both.
func resignAfter(ctx context.Context, term *Term, results <-chan result, checkup *checkup) {
	r := <-results
	_, _ = checkup.wait()
	// Run has returned, and reports no further error; the session's end is the bound.
	_ = term.Resign(ctx)
	if r.panicked != nil {
		panic(r.panicked)
	}
}

// await waits for work's result, without bound while its context is open.
func (e *Election) await(workCtx context.Context, results <-chan result) (result, error) {
	select {
	case r := <-results:
		return r, nil
	case <-workCtx.Done():
	}
	if e.stopTimeout == 0 {
		return <-results, nil
	}
	select {
	case r := <-results:
		return r, nil
	case <-time.After(e.stopTimeout):
		return result{}, fmt.Errorf("%w: %v after its context was done (%w)", ErrOverrun, e.stopTimeout, context.Cause(workCtx))
	}
}
