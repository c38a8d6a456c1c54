// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// An Attempt is one attempt to join: its inputs, the answer, and what follows from it.
type Attempt struct {
	Queue     *Queue
	Entry     Entry
	View      parentView
	Version   int32 // that the parent must have for the join to be carried out, -1 for any
	witnessed bool  // a witness is checked, if there is one

	Place    *Place
	detached <-chan struct{} // closed once the connection has ended that was attached when the name was chosen
	witness  *nodes.Node     // of this session; nil if none was checked
	other    string          // the name of the witness of another client; empty if none was checked
	parent   *zk.Stat        // from the answer; nil if the parent was not written, or the join failed
	Refused  bool            // the server refused an operation of this attempt, and not of another one in the transaction
	Err      error

	step joinStep
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

// isWitnessed reports whether the attempt checks a witness.
func (a *Attempt) isWitnessed() bool { return a.witness != nil || a.other != "" }

// exists reports whether the attempt has a node.
func (a *Attempt) exists() bool {
	return a.step == stay || a.step == leaveOtherLife || a.step == leaveRecurring || a.step == leaveCancelled
}

// next returns the step that follows from the answer. cancelled reports whether the caller's context
// is done.
func (a *Attempt) next(cancelled bool) joinStep {
	switch {
	case a.Err == nil && a.parent != nil && a.parent.Czxid != a.View.tag:
		return leaveOtherLife
	case a.Err == nil && a.Place.recurs():
		return leaveRecurring
	case a.Err == nil && cancelled:
		return leaveCancelled // the join waited for its answer nevertheless
	case a.Err == nil:
		return stay
	case errors.Is(a.Err, errMissed):
		return retryUnwitnessed
	case errors.Is(a.Err, ErrContended):
		return fail
	case errors.Is(a.Err, ErrReadOnly):
		return retryUnwritten
	case session.OutcomeOf(a.Err) == session.Unknown:
		return findOut
	case errors.Is(a.Err, zk.ErrNoNode):
		return retryReread
	case errors.Is(a.Err, zk.ErrNodeExists) && !a.View.overflowed:
		return retryWithNonce // the counter is stuck
	}
	return fail
}

// afterSearch returns the step that follows from a search for the node; found reports
// whether the node exists.
func (a *Attempt) afterSearch(found bool) joinStep {
	switch {
	case found && a.Place.recurs():
		return leaveRecurring
	case found:
		return stay
	case !session.Retryable(a.Err): // as with a code that the ZooKeeper client does not know
		return fail
	}
	return retry
}

// ErrReadOnly reports that this client may not write the parent's data.
var ErrReadOnly = errors.New("parent may not be written")

// ErrContended reports that another contender has joined since the parent was read.
var ErrContended = errors.New("another contender has joined since the parent was read")

// errMissed reports that the join's witness did not exist or was overwritten, and that nothing was created.
var errMissed = errors.New("no node that is known to be of this life of the parent")

// A parentView is a Queue's knowledge of its parent when an attempt begins.
type parentView struct {
	tag        int64
	Writable   bool
	overflowed bool
	hint       int64 // the newest that this session has written, 0 if none
}
