// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Term is one period of leadership, from the grant until it is resigned or lost. It
// is used once: a term that has ended stays ended. All methods are safe for
// concurrent use.
//
// Besides Owner, Proclaim, Drain, HandOver and Resign, it has the methods of the embedded Claim: Token, Done, Err,
// Context, Deadline, Check, Commit and Path.
type Term struct {
	*recipes.Claim
	queue    *queue.Queue
	value    *record.Node[proclamation]
	owner    string
	election *Election

	draining atomic.Bool                             // by Drain
	stop     atomic.Pointer[context.CancelCauseFunc] // of the work that Run runs; nil without Run
}

// Owner returns the label of the candidate that leads in this term.
func (t *Term) Owner() string { return t.owner }

// Resign ends the leadership. It closes Done first, and then deletes the node: stop
// the term's work before, as Run does.
//
// Resign works even if ctx is already done, so that it can be deferred: it is bounded
// by the release timeout and not by ctx. A second call returns the result of the
// first. Resign returns
//
//   - nil if the term lasted until then, and the next candidate may lead;
//   - recipes.ErrLost, with the cause, if the term had been lost before;
//   - recipes.ErrUncertain if no server confirmed the release in time, or before the
//     client was closed, or the error with which a server refused. The release goes on
//     in the background while the client is open, and the next candidate can lead when
//     the session ends at the latest.
//
// After recipes.ErrDeadline, a call of Resign states that the work has stopped: the
// next candidate then need not wait another quarter of the session timeout.
func (t *Term) Resign(ctx context.Context) error { return t.queue.Release(ctx, t.Claim) }
