// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Hold is one acquisition of a lock, from the grant until it is unlocked or lost.
// It is used once: a hold that has ended stays ended. All methods are safe for
// concurrent use.
//
// Besides Unlock, it has the methods of the embedded Claim: Token, Done, Err,
// Context, Deadline, Check, Commit and Path.
type Hold struct {
	*recipes.Claim
	queue *recipes.Queue
}

// Unlock releases the lock. It closes Done first, and then deletes the node.
//
// Unlock works even if ctx is already done, so that it can be deferred: it is
// bounded by the release timeout and not by ctx. It returns nil if the lock was
// held until then and is free now; recipes.ErrLost, with the cause, if the lock had
// been lost before, in which case no node of another contender is touched;
// recipes.ErrUncertain if no server confirmed the release in time, or before the
// client was closed; or the error with which a server refused. In the last two
// cases the release goes on in the background while the client is open, and the
// lock is free when the session ends at the latest. A second call returns the
// result of the first.
//
// After recipes.ErrDeadline, a call of Unlock states that the work has stopped: the
// lock is then not withheld from other contenders for another quarter of the
// session timeout.
func (h *Hold) Unlock(ctx context.Context) error { return h.queue.Release(ctx, h.Claim) }
