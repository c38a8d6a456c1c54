// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Run campaigns, and runs work for each term that it wins, until ctx is done or
// work fails.
//
// The context that work gets is done when ctx is, or when the term is lost;
// context.Cause says which. A term ends in this order: the work's context is
// cancelled; Run waits until work has returned; the node is deleted, so that
// another can lead; Run waits for the cool-down; it campaigns again. So the work
// of one term never overlaps that of this process's next one, and it overlaps that
// of no other process's unless it goes on after its context is done.
//
// After a term that was lost, or work that returned nil, Run campaigns again. It
// returns, with an error that says which,
//
//   - when ctx is done: ctx's error and cause, joined with what work returned,
//     unless that is only the cancellation;
//   - when work returns an error which is not the loss of its term: that error.
//     ErrLost, a cancellation and fencing.ErrStale are the loss of its term if the
//     term was lost, which shows at the latest when Run resigns it;
//   - when work has not returned within the stop timeout after its context was
//     done: ErrOverrun. The work goes on, and its node stays until it has returned,
//     for as long as the session lives. Exit the process;
//   - when the client was closed: recipes.ErrClosed; or when a server refuses.
//
// A panic of work passes through Run as a *PanicError, after the term was resigned;
// one that comes after ErrOverrun ends the process.
func (e *Election) Run(ctx context.Context, work func(ctx context.Context, term *Term) error) error {
	if work == nil {
		return &recipes.Error{Op: "run", Path: e.line.Path(), Err: errors.New("work is nil")}
	}
	for {
		term, err := e.Campaign(ctx)
		if err != nil {
			return fmt.Errorf("run: %w", err)
		}
		if err := e.serve(ctx, term, work); err != nil {
			return fmt.Errorf("run: %w", err)
		}
		timer := time.NewTimer(e.coolDown)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("run: %w", ended(ctx))
		}
	}
}

// A result is how work ended.
type result struct {
	err      error
	panicked *PanicError
	exited   bool // by runtime.Goexit
}

// A PanicError is what Run panics with when its work has panicked.
type PanicError struct {
	Value any    // that the work panicked with
	Stack []byte // of the work
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

// serve runs work for one term, and ends the term. Its error is that there shall
// be no other.
func (e *Election) serve(ctx context.Context, term *Term, work func(context.Context, *Term) error) error {
	workCtx, cancel := term.Context(ctx)
	defer cancel()
	results := make(chan result, 1)
	go func() {
		r := result{exited: true}
		defer func() {
			if value := recover(); value != nil {
				r = result{panicked: &PanicError{Value: value, Stack: debug.Stack()}}
			}
			results <- r
		}()
		r.err = work(workCtx, term)
		r.exited = false
	}()

	r, err := e.await(workCtx, results)
	if err != nil {
		// The work goes on: as long as it does, nobody else shall lead. Whoever
		// exits, as told, ends both.
		go func() {
			r := <-results
			// Its outcome is nobody's any more; the session's end is the bound.
			_ = term.Resign(context.WithoutCancel(ctx))
			if r.panicked != nil {
				panic(r.panicked)
			}
		}()
		return &recipes.Error{Op: "stop", Path: term.Path(), Err: err}
	}
	lost := term.Err() != nil
	cancel()
	resignErr := term.Resign(ctx)
	switch {
	case r.panicked != nil:
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	switch {
	case errors.Is(resignErr, recipes.ErrLost):
		lost, resignErr = true, nil
	case errors.Is(resignErr, recipes.ErrUncertain):
		resignErr = nil // the node goes in the background, or with its session
	}
	if isStop(r.err) && lost {
		r.err = nil
	}
	if ctx.Err() == nil {
		return errors.Join(r.err, resignErr)
	}
	if isStop(r.err) || errors.Is(r.err, context.Cause(ctx)) {
		r.err = nil
	}
	return errors.Join(ended(ctx), r.err, resignErr)
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
	timer := time.NewTimer(e.stopTimeout)
	defer timer.Stop()
	select {
	case r := <-results:
		return r, nil
	case <-timer.C:
		return result{}, fmt.Errorf("%w: %v after its context was done (%w)", ErrOverrun, e.stopTimeout, context.Cause(workCtx))
	}
}

// isStop says that work ended because it was told to.
func isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, recipes.ErrLost) || errors.Is(err, fencing.ErrStale)
}
