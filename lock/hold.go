// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Hold is one acquisition of a lock, from the grant until it is unlocked or lost.
// It is used once: a hold that has ended stays ended. All methods are safe for
// concurrent use.
//
// Besides Unlock and Context, it has the methods of the embedded Claim: Token, Done,
// Err, Deadline, Check, Commit, Shared, and Path, the path of the hold's own node.
//
// Holds of a re-entrant lock that were taken under one another share one Claim: they
// have the same token, and end together, with the last Unlock or when the lock is lost.
type Hold struct {
	*recipes.Claim
	acquisition *acquisition

	unlocked  sync.Once // guards unlockErr
	unlockErr error
}

// Unlock releases the lock. It closes Done first, and then deletes the node.
//
// Unlock works even if ctx is already done, so that it can be deferred: it is
// bounded by the release timeout and not by ctx. A second call returns the result
// of the first. Unlock returns
//
//   - nil if the lock was held until then, and is free now;
//   - recipes.ErrLost, with the cause, if the lock had been lost before: no node of
//     another contender is touched;
//   - recipes.ErrUncertain if no server confirmed the release in time, or before the
//     client was closed, or the error with which a server refused. The release goes
//     on in the background while the client is open, and the lock is free when the
//     session ends at the latest.
//
// If other holds of a re-entrant lock share the claim, Unlock leaves the lock to them,
// and sends nothing: the last Unlock releases the lock. It then returns nil, or
// recipes.ErrLost if the lock had been lost before.
//
// After recipes.ErrDeadline, a call of Unlock states that the work has stopped: the
// lock is then not withheld from other contenders for another quarter of the
// session timeout.
func (h *Hold) Unlock(ctx context.Context) error {
	if ctx == nil {
		return h.acquisition.queue.Release(ctx, h.Claim) // which returns an error, and releases nothing
	}
	h.unlocked.Do(func() { h.unlockErr = h.acquisition.leave(ctx) })
	return h.unlockErr
}

// Context returns a copy of parent that is done when parent is, or when the hold
// ends; context.Cause then returns the same error as Err. Call the function when
// the context is no longer needed.
//
// If the lock is re-entrant, a Lock or TryLock of it under this context joins the hold:
// see Options.Reentrant.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return h.Claim.Context(h.acquisition.context(parent))
}

// abandon is Unlock for a hold under which no work has begun.
func (h *Hold) abandon() { h.unlocked.Do(h.acquisition.abandon) }

// do runs f, and then releases the lock: see Mutex.Do.
func (h *Hold) do(ctx context.Context, f func(ctx context.Context, hold *Hold) error) (err error) {
	work, cancel := h.Context(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, h.Unlock(ctx))
	}()
	return f(work, h)
}
