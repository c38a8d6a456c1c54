// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A MultiHold is one acquisition of all locks of a MultiMutex, from the grant of the last one until
// it is unlocked or the first lock is lost. It is used once. All methods are safe for concurrent
// use.
type MultiHold struct {
	mutexes []*Mutex // in the order of their paths
	holds   []*Hold  // by lock
	ended   context.Context
	end     context.CancelCauseFunc
	stop    context.CancelFunc
}

// newMultiHold returns the merged hold.
func newMultiHold(mutexes []*Mutex, holds []*Hold) *MultiHold {
	h := &MultiHold{mutexes: mutexes, holds: holds}
	var parent context.Context
	parent, h.end = context.WithCancelCause(context.Background())
	h.ended, h.stop = h.whileHeld(parent)
	return h
}

// Tokens returns the tokens of all locks by path, as Mutex.Path returns it. Pass each resource the
// token of the lock that guards it, as a shared one if the lock was taken for reading: see Claim.Shared. Tokens of different paths
// are not comparable: locks that one transaction took have equal ones.
func (h *MultiHold) Tokens() map[string]fencing.Token {
	tokens := make(map[string]fencing.Token, len(h.holds))
	for i, m := range h.mutexes {
		tokens[m.Path()] = h.holds[i].Token()
	}
	return tokens
}

// Claim returns the claim of one of the locks, for its Token, Check or Commit. It returns nil if m is
// not one of the locks.
func (h *MultiHold) Claim(m *Mutex) *recipes.Claim {
	for i, own := range h.mutexes {
		// Each call of RWMutex.Locker and RLocker returns another Mutex.
		if m != nil && m.queue == own.queue && m.mode == own.mode {
			return h.holds[i].Claim
		}
	}
	return nil
}

// Done returns a channel that is closed when the first lock is lost, or the hold is unlocked.
func (h *MultiHold) Done() <-chan struct{} { return h.ended.Done() }

// Err returns nil while all locks are held, and then the error of the first one that has ended: see
// Claim.Err. It checks the clock.
func (h *MultiHold) Err() error {
	if h.ended.Err() != nil {
		return context.Cause(h.ended)
	}
	return lostOf(h.holds)
}

// Context returns a copy of parent that is done when parent is, or when the hold ends;
// context.Cause then returns the error of the first lock that has ended. Call the function when
// the context is no longer needed. Nested calls under it join re-entrant locks: see
// Options.Reentrant.
func (h *MultiHold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	held, stop := h.whileHeld(parent)
	ctx, cancel := context.WithCancelCause(held)
	// Unlock ends it also where outer holds keep all locks.
	forget := context.AfterFunc(h.ended, func() { cancel(context.Cause(h.ended)) })
	if h.ended.Err() != nil {
		cancel(context.Cause(h.ended))
	}
	return ctx, func() {
		forget()
		cancel(nil)
		stop()
	}
}

// whileHeld returns a copy of parent that is done when the first lock has ended.
func (h *MultiHold) whileHeld(parent context.Context) (context.Context, context.CancelFunc) {
	cancels := make([]context.CancelFunc, len(h.holds))
	for i, hold := range h.holds {
		parent, cancels[i] = hold.Context(parent)
	}
	return parent, func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// Unlock releases all locks, at the same time, each as Hold.Unlock does. Its error joins theirs: if
// one lock was lost, the others are released nevertheless. A second call returns the same error.
func (h *MultiHold) Unlock(ctx context.Context) error {
	if ctx != nil {
		cause := lostOf(h.holds)
		if cause == nil {
			cause = &recipes.Error{Op: "hold", Path: h.mutexes[0].Path(), Err: fmt.Errorf("%w: %w", recipes.ErrLost, recipes.ErrReleased)}
		}
		// Holds of re-entrant locks may stay open, and would keep the contexts.
		h.end(cause)
		defer h.stop()
	}
	errs := make([]error, len(h.holds))
	var unlocking sync.WaitGroup
	for i, hold := range h.holds {
		unlocking.Go(func() { errs[i] = hold.Unlock(ctx) })
	}
	unlocking.Wait()
	return errors.Join(errs...)
}

// lostOf returns the error of the first of holds that has ended, nil if none has. A nil hold has not.
func lostOf(holds []*Hold) error {
	for _, hold := range holds {
		if hold == nil {
			continue
		}
		if err := hold.Err(); err != nil {
			return err
		}
	}
	return nil
}

// abandonAll releases the holds that are not nil, at the same time. No work has begun under them.
func abandonAll(holds []*Hold) {
	var leaving sync.WaitGroup
	for _, hold := range holds {
		if hold != nil {
			leaving.Go(hold.abandon)
		}
	}
	leaving.Wait()
}
