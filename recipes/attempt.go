// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session"
)

// An attempt is one attempt to join: its inputs and the answer.
type attempt struct {
	view    view
	place   *place
	witness *session.Node // nil if none was checked
	parent  *zk.Stat      // from the answer; nil if the parent was not written, or the join failed
	err     error
}

// A joinStep is what a join does next.
type joinStep int

const (
	stay             joinStep = iota // the node is the caller's
	leaveOtherLife                   // the name belongs to another life of the parent, and may recur: delete the node, read the parent, join again
	leaveRecurring                   // the name may recur, as the counter is stuck: delete the node, join again
	leaveCancelled                   // the caller's context is done: delete the node
	findOut                          // it is unknown whether the node exists: search for it
	retry                            // there is no node: join again
	retryUnwitnessed                 // the same, without a witness
	retryUnwritten                   // the same, without writing the parent
	retryReread                      // the same, after the parent is read, and created if it is missing
	retryWithNonce                   // the same, with a nonce in the name
	fail                             // there is no node, and joining again does not help
)

// leaves reports whether the node of the attempt exists, and must be deleted.
func (j joinStep) leaves() bool {
	return j == leaveOtherLife || j == leaveRecurring || j == leaveCancelled
}

// next returns the step that follows from the answer. cancelled reports whether the caller's context
// is done.
func (a attempt) next(cancelled bool) joinStep {
	switch {
	case a.err == nil && a.parent != nil && a.parent.Czxid != a.view.tag:
		return leaveOtherLife
	case a.err == nil && a.place.recurs():
		return leaveRecurring
	case a.err == nil && cancelled:
		return leaveCancelled // the join waited for its answer nevertheless
	case a.err == nil:
		return stay
	case errors.Is(a.err, errMissed):
		return retryUnwitnessed
	case errors.Is(a.err, errContended):
		return fail
	case errors.Is(a.err, errReadOnly):
		return retryUnwritten
	case session.OutcomeOf(a.err) == session.Unknown:
		return findOut
	case errors.Is(a.err, zk.ErrNoNode):
		return retryReread
	case errors.Is(a.err, zk.ErrNodeExists) && !a.view.overflowed:
		return retryWithNonce // the counter is stuck
	}
	return fail
}

// afterSearch returns the step that follows from a search for the node; found reports
// whether the node exists.
func (a attempt) afterSearch(found bool) joinStep {
	switch {
	case found && a.place.recurs():
		return leaveRecurring
	case found:
		return stay
	case !session.Retryable(a.err): // as with a code that the ZooKeeper client does not know
		return fail
	}
	return retry
}

// errReadOnly reports that this client may not write the parent's data.
var errReadOnly = errors.New("parent may not be written")

// errContended reports that another contender has joined since the parent was read.
var errContended = errors.New("another contender has joined since the parent was read")

// errMissed reports that the join's witness did not exist or was overwritten, and that nothing was created.
var errMissed = errors.New("no node of the session in this life of the parent")

// A view is a Queue's knowledge of its parent when an attempt begins.
type view struct {
	tag        int64
	writable   bool
	highest    int32
	overflowed bool
}
