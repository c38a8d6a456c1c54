// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Hold is a lock that was obtained, from then until it is unlocked or lost. It
// is used once: a hold that has ended stays ended. All methods are safe for
// concurrent use.
//
// What it offers besides Unlock is that of the embedded Claim: Token, Done, Err,
// Context, Deadline, Check, Commit and Path.
type Hold struct {
	*recipes.Claim
	line *recipes.Line
}

// Unlock gives the lock back. Done is closed first, then the node is deleted.
//
// It tries even if ctx is done already, so that it can be deferred: its bound is
// the unlock timeout, and ctx is none. It returns nil if the lock was held until
// then and is free; recipes.ErrLost, with the cause, if it had been lost before,
// and nothing of others is touched then; recipes.ErrUncertain if no server
// confirmed it in time, or before the client was closed; or what a server refused.
// In the last two cases it goes on in the background while the client is open, and
// the lock is free when the session ends at the latest. Called again, it returns
// the first result.
//
// After recipes.ErrDeadline it says that the work has stopped: the lock is then
// not kept from others for a quarter of the session timeout more.
func (h *Hold) Unlock(ctx context.Context) error { return h.line.Release(ctx, h.Claim) }
