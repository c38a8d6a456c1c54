// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/report"
)

// A Trace is a set of hooks for the events in a client, for instance for metrics. Every
// field may be nil.
//
// The functions are called one at a time, in the order of the events, on their own
// goroutine: a slow one delays only those after it. While 1024 calls are waiting,
// further events are dropped and counted, except calls of Lost: see
// Client.DroppedEvents. Client.Close waits for the queued calls. Code that must know
// the newest state of the session uses Client.States.
type Trace struct {
	// SessionOpened is called when a session exists.
	SessionOpened func(SessionEvent) // Session, Server, Timeout
	// SessionEnded is called when a session is over.
	SessionEnded func(SessionEvent) // Session, Err
	// Unguarded is called when a session begins that the guardian of Options.Guard has not acknowledged in T/24. It may do so later:
	// see State.Unguarded.
	Unguarded func(SessionEvent) // Session, Err
	// Attached is called when a server serves the session again.
	Attached func(SessionEvent) // Session, Server
	// Detached is called when the connection to the server ended. No claim is lost
	// yet.
	Detached func(SessionEvent) // Session, Server
	// Outage is called when no server has served the client for T/4.
	// Attached, SessionEnded or SessionOpened follows when the outage ends.
	Outage func(SessionEvent) // Lasted, Err
	// Heartbeat is called when a heartbeat was answered or failed.
	Heartbeat func(SessionEvent) // RoundTrip, Err
	// Proved is called when a heartbeat proved that the session lives, while the client
	// held claims.
	Proved func(SessionEvent) // Left, Timeout
	// Joined is called when a contender has joined the queue.
	Joined func(QueueEvent) // Path, Node, Contenders
	// Waiting is called when a contender begins to wait for its predecessor.
	Waiting func(QueueEvent) // Path, Node, Ahead
	// Granted is called when a contender is granted the claim.
	Granted func(QueueEvent) // Path, Node, Token, Waited, Context, Time
	// HandedOver is called after Granted if the contender had waited for a predecessor, whether
	// or not a leader has named it: see election.Term.HandOver for that.
	HandedOver func(QueueEvent) // Path, Node, Listings
	// Unreleased is called when a claim with a lock-delay or a fence function has found that the former
	// holder did not release, before the claim waits for the rest of the delay. Each call that finds the
	// same former holder reports it.
	Unreleased func(QueueEvent) // Path, Former, Delay
	// Failed is called when a call for a claim has returned an error: its context is
	// done, for instance, or the queue was not empty.
	Failed func(QueueEvent) // Path, Waited, Err, Context, Time
	// Ended is called when a claim has ended. Err is ErrReleased, or the cause of the
	// loss.
	Ended func(QueueEvent) // Path, Node, Token, Held, Err, Context, Time
	// Lost is called when a claim has ended other than by its holder. No call is
	// dropped.
	Lost func(QueueEvent) // Path, Node, Err
	// Released is called when a holder has released a claim. Err is what Release
	// returned.
	Released func(QueueEvent) // Path, Node, Err
	// Rejoined is called when a waiter joins again at the end of the queue, because
	// its session is over, its node was deleted, or it has yielded.
	Rejoined func(QueueEvent) // Path, Err
	// Recovered is called after a search for the node of a create that was not
	// answered.
	Recovered func(QueueEvent) // Path, Found, Err
	// Expired is called when this client has deleted the node of a lease that its holder
	// had not renewed in time, or of a claim that was revoked.
	Expired func(QueueEvent) // Node
	// NotDeleted is called when a node could not be deleted yet. The client tries again.
	NotDeleted func(QueueEvent) // Node, Err

	_ struct{}
}

// A SessionEvent is what has happened to a session. Each hook names the fields that
// it sets.
type SessionEvent struct {
	Session   int64
	Server    string        // its address
	Timeout   time.Duration // the session timeout T
	Lasted    time.Duration // how long no server has served the client
	RoundTrip time.Duration
	Left      time.Duration // until the deadline of the claims, and 0 after it
	Err       error         // why, nil after a heartbeat that was answered

	_ struct{}
}

// A QueueEvent is what has happened in a queue or to a contender. Each hook names
// the fields that it sets.
type QueueEvent struct {
	Path       string // of the queue
	Node       string // the path of the contender's node
	Contenders int    // nodes that the queue had, including the contender's own; 0 if unknown
	Ahead      string // the name of the predecessor's node
	Listings   int    // of the queue by the contender, after it began to wait: 0 in the usual hand-over
	Token      fencing.Token
	Waited     time.Duration // since the call for the claim began
	Held       time.Duration
	Former     FormerHolder
	Delay      time.Duration // the lock-delay that is left
	Found      bool          // whether the search found the node
	Err        error         // why, nil for a success

	// Context has the values of the context of the call for the claim, such as its span. It has neither its cancellation
	// nor its deadline.
	Context context.Context
	Time    time.Time // when it happened: hooks are called later

	_ struct{}
}

// hooks returns the trace's functions for the engine.
func (t *Trace) hooks() report.Hooks {
	var h report.Hooks
	if t == nil {
		return h
	}
	if f := t.SessionOpened; f != nil {
		h.SessionOpened = func(session int64, server string, timeout time.Duration) {
			f(SessionEvent{Session: session, Server: server, Timeout: timeout})
		}
	}
	if f := t.SessionEnded; f != nil {
		h.SessionEnded = func(session int64, err error) { f(SessionEvent{Session: session, Err: err}) }
	}
	if f := t.Unguarded; f != nil {
		h.Unguarded = func(session int64, err error) { f(SessionEvent{Session: session, Err: err}) }
	}
	if f := t.Attached; f != nil {
		h.Attached = func(session int64, server string) { f(SessionEvent{Session: session, Server: server}) }
	}
	if f := t.Detached; f != nil {
		h.Detached = func(session int64, server string) { f(SessionEvent{Session: session, Server: server}) }
	}
	if f := t.Outage; f != nil {
		h.Outage = func(lasted time.Duration, err error) { f(SessionEvent{Lasted: lasted, Err: err}) }
	}
	if f := t.Heartbeat; f != nil {
		h.Heartbeat = func(roundTrip time.Duration, err error) { f(SessionEvent{RoundTrip: roundTrip, Err: err}) }
	}
	if f := t.Proved; f != nil {
		h.Proved = func(left, timeout time.Duration) { f(SessionEvent{Left: left, Timeout: timeout}) }
	}
	t.queueHooks(&h)
	return h
}

// queueHooks sets the functions for the events of queues.
func (t *Trace) queueHooks(h *report.Hooks) {
	if f := t.Joined; f != nil {
		h.Joined = func(path, node string, contenders int) { f(QueueEvent{Path: path, Node: node, Contenders: contenders}) }
	}
	if f := t.Waiting; f != nil {
		h.Waiting = func(path, node, ahead string) { f(QueueEvent{Path: path, Node: node, Ahead: ahead}) }
	}
	if f := t.Granted; f != nil {
		h.Granted = func(call report.Call, path, node string, token fencing.Token, waited time.Duration) {
			f(QueueEvent{Path: path, Node: node, Token: token, Waited: waited, Context: call.Context, Time: call.Time})
		}
	}
	if f := t.HandedOver; f != nil {
		h.HandedOver = func(path, node string, listings int) { f(QueueEvent{Path: path, Node: node, Listings: listings}) }
	}
	if f := t.Unreleased; f != nil {
		h.Unreleased = func(path string, former report.Former, delay time.Duration) {
			f(QueueEvent{Path: path, Former: FormerHolder(former), Delay: delay})
		}
	}
	if f := t.Failed; f != nil {
		h.Failed = func(call report.Call, path string, waited time.Duration, err error) {
			f(QueueEvent{Path: path, Waited: waited, Err: err, Context: call.Context, Time: call.Time})
		}
	}
	if f := t.Ended; f != nil {
		h.Ended = func(call report.Call, path, node string, token fencing.Token, held time.Duration, err error) {
			f(QueueEvent{Path: path, Node: node, Token: token, Held: held, Err: err, Context: call.Context, Time: call.Time})
		}
	}
	if f := t.Lost; f != nil {
		h.Lost = func(path, node string, err error) { f(QueueEvent{Path: path, Node: node, Err: err}) }
	}
	if f := t.Released; f != nil {
		h.Released = func(path, node string, err error) { f(QueueEvent{Path: path, Node: node, Err: err}) }
	}
	if f := t.Rejoined; f != nil {
		h.Rejoined = func(path string, err error) { f(QueueEvent{Path: path, Err: err}) }
	}
	if f := t.Recovered; f != nil {
		h.Recovered = func(path string, found bool, err error) { f(QueueEvent{Path: path, Found: found, Err: err}) }
	}
	if f := t.Expired; f != nil {
		h.Expired = func(node string) { f(QueueEvent{Node: node}) }
	}
	if f := t.NotDeleted; f != nil {
		h.NotDeleted = func(node string, err error) { f(QueueEvent{Node: node, Err: err}) }
	}
}
