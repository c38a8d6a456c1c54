// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Term is a leadership that was won, from then until it is resigned or lost. It
// is used once: a term that has ended stays ended. All methods are safe for
// concurrent use.
//
// What it offers besides ID and Resign is that of the embedded Claim: Token, Done,
// Err, Context, Deadline, Check, Commit and Path.
type Term struct {
	*recipes.Claim
	line *recipes.Line
	id   string
}

// ID is the name of the candidate whose term it is.
func (t *Term) ID() string { return t.id }

// Resign gives the leadership up. Done is closed first, then the node is deleted:
// stop the term's work before, as Run does.
//
// It tries even if ctx is done already, so that it can be deferred: its bound is
// the resign timeout, and ctx is none. It returns nil if the term lasted until then
// and the next candidate may lead; recipes.ErrLost, with the cause, if it had been
// lost before; recipes.ErrUncertain if no server confirmed it in time, or before
// the client was closed; or what a server refused. In the last two cases it goes on
// in the background while the client is open, and the leadership is free when the
// session ends at the latest. Called again, it returns the first result.
//
// After recipes.ErrDeadline it says that the work has stopped: the next candidate
// then need not wait for a quarter of the session timeout more.
func (t *Term) Resign(ctx context.Context) error { return t.line.Release(ctx, t.Claim) }
