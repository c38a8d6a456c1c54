// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/report"
)

// A Trace is a set of hooks for the events in a client, for instance for metrics. Every
// field may be nil.
//
// The functions are called one at a time, in the order of the events, on their own
// goroutine: a slow one delays only those after it. While 1024 calls are waiting,
// further events are dropped and counted, except those of Lost: see
// Client.DroppedEvents. Client.Close waits for the queued calls. Code that must see
// every change of the session uses Client.States.
type Trace struct {
	// SessionOpened is called when a session exists.
	SessionOpened func(session int64, server string, timeout time.Duration)
	// SessionEnded is called when a session is over, with the cause.
	SessionEnded func(session int64, cause error)
	// Attached is called when a server serves the session again.
	Attached func(session int64, server string)
	// Detached is called when the connection to the server ended. No claim is lost
	// yet.
	Detached func(session int64, server string)
	// Outage is called when no server has served the client for T/4, with the reason.
	// Attached, SessionEnded or SessionOpened follows when the outage ends.
	Outage func(lasted time.Duration, cause error)
	// Heartbeat is called when a heartbeat was answered or failed.
	Heartbeat func(roundTrip time.Duration, err error)
	// Proved is called when a heartbeat proved that the session lives, while the client
	// held claims. left is how long before their deadline that was, and 0 after it;
	// timeout is the session timeout T.
	Proved func(left, timeout time.Duration)
	// Joined is called when a contender has joined the queue. contenders is how many
	// nodes the queue then had, including the contender's own; 0 if the server did not
	// report that.
	Joined func(path, node string, contenders int)
	// Waiting is called when a contender begins to wait for its predecessor.
	Waiting func(path, node, ahead string)
	// Granted is called when a contender is granted the claim. waited is the time since
	// the call for it began.
	Granted func(path, node string, token fencing.Token, waited time.Duration)
	// HandedOver is called after Granted if the contender had waited for a predecessor, whether
	// or not a leader has named it: see election.Term.HandOver for that.
	HandedOver func(path, node string)
	// Unreleased is called when a claim with a lock-delay or a fence function has found that the former
	// holder did not release, before the claim waits for the rest of the delay. Each call that finds the
	// same former holder reports it.
	Unreleased func(path string, former FormerHolder, delay time.Duration)
	// Failed is called when a call for a claim has returned an error, after the time
	// that it waited: its context is done, for instance, or the queue was not empty.
	Failed func(path string, waited time.Duration, err error)
	// Ended is called when a claim has ended, with how long it was held, and why:
	// ErrReleased, or the cause of the loss.
	Ended func(path, node string, held time.Duration, cause error)
	// Lost is called when a claim has ended other than by its holder. No call is
	// dropped.
	Lost func(path, node string, cause error)
	// Released is called when a holder has released a claim, with the error that
	// Release returned.
	Released func(path, node string, err error)
	// Rejoined is called when a waiter joins again at the end of the queue, because
	// its session is over, its node was deleted, or it has stepped back.
	Rejoined func(path string, cause error)
	// Recovered is called after a search for the node of a create that was not
	// answered.
	Recovered func(path string, found bool, err error)
	// Expired is called when this client has deleted the node of a lease that its holder
	// had not renewed in time, or that of a claim that was revoked.
	Expired func(node string)
	// NotDeleted is called when a node could not be deleted yet. The client tries again.
	NotDeleted func(node string, err error)

	_ struct{}
}

// hooks returns the trace's functions for the engine.
func (t *Trace) hooks() report.Hooks {
	if t == nil {
		return report.Hooks{}
	}
	h := report.Hooks{
		SessionOpened: t.SessionOpened,
		SessionEnded:  t.SessionEnded,
		Attached:      t.Attached,
		Detached:      t.Detached,
		Outage:        t.Outage,
		Heartbeat:     t.Heartbeat,
		Proved:        t.Proved,
		Joined:        t.Joined,
		Waiting:       t.Waiting,
		Granted:       t.Granted,
		HandedOver:    t.HandedOver,
		Failed:        t.Failed,
		Ended:         t.Ended,
		Lost:          t.Lost,
		Released:      t.Released,
		Rejoined:      t.Rejoined,
		Recovered:     t.Recovered,
		Expired:       t.Expired,
		NotDeleted:    t.NotDeleted,
	}
	if f := t.Unreleased; f != nil {
		h.Unreleased = func(path string, by report.Former, delay time.Duration) { f(path, FormerHolder(by), delay) }
	}
	return h
}
