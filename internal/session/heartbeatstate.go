// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// maxHeartbeats is how many heartbeats may be in flight. They are sent on schedule, so that writes that take longer than the
// time between two of them cost no proof. Two carry round trips of more than 5T/24, with which no schedule would keep a claim.
// The deadline counts the longer round trip of the last two proofs, and so allows for no more than two.
const maxHeartbeats = 2

// A heartbeatState is the state of a session's heartbeats. It is safe for concurrent use.
type heartbeatState struct {
	mu       sync.Mutex      // guards what follows
	inFlight int             // how many have not been answered
	last     time.Time       // when the last one was sent
	next     time.Time       // when the next one is due
	deadline time.Time       // of the session, when the last one ended
	wanted   []*proofRequest // by contenders that wait for a proof
}

// A proofRequest is the request of a contender that waits for a proof of its node.
type proofRequest struct {
	node     *nodes.Node
	answered chan struct{} // closed when a heartbeat has covered the node
	err      error         // why none could; set before answered is closed
	gone     atomic.Bool   // its caller has returned, or is about to
}

// errReleased reports that a node was released while it was being checked. It proves
// nothing about the other nodes.
var errReleased = errors.New("node released during the check")

// ask registers a contender that waits for a proof of its node.
func (b *heartbeatState) ask(n *nodes.Node) *proofRequest {
	asked := &proofRequest{node: n, answered: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = append(b.wanted, asked)
	return asked
}

// due returns when the next heartbeat is due.
func (b *heartbeatState) due() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// isNeeded reports whether something is granted, or a contender waits for a proof.
func (b *heartbeatState) isNeeded(granted int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return granted > 0 || len(b.wanted) > 0
}

// lastSent returns when the last heartbeat was sent.
func (b *heartbeatState) lastSent() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// makeDue makes the next heartbeat due immediately.
func (b *heartbeatState) makeDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = time.Time{}
}

// begin starts a heartbeat if one is due, or if contenders wait for one and the last is answered, or was sent half an
// interval ago: the heartbeats of a burst of contenders that begin to wait one after another are shared. The next one is due
// after the interval. begin returns the nodes to check and the contenders that the heartbeat answers. If it starts none, it
// returns no nodes and how long to wait: 0 if the owner will be woken anyway. pick chooses the nodes, first those that
// contenders wait for, as many as fit. A request for a node that a contender has left fails: no heartbeat would answer it.
func (b *heartbeatState) begin(
	now time.Time, interval time.Duration, isLeft func(*nodes.Node) bool, pick func(first []*nodes.Node) []*nodes.Node,
) (checked []*nodes.Node, wanted []*proofRequest, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := b.next
	if len(b.wanted) > 0 && b.inFlight == 0 {
		due = now
	} else if half := b.last.Add(interval / 2); len(b.wanted) > 0 && half.Before(due) {
		due = half
	}
	switch {
	case b.inFlight == maxHeartbeats: // the end of one wakes the owner
		return nil, nil, 0
	case now.Before(due):
		return nil, nil, due.Sub(now)
	}
	first := make([]*nodes.Node, 0, min(len(b.wanted), nodes.MaxChecks))
	for _, w := range b.wanted {
		switch {
		case w.gone.Load():
		case isLeft(w.node):
			w.gone.Store(true)
			w.err = errReleased
			close(w.answered)
		case len(first) < nodes.MaxChecks:
			first = append(first, w.node)
		}
	}
	if checked = pick(first); len(checked) == 0 {
		return nil, nil, 0 // the next grant wakes the owner
	}
	b.last, b.next = now, now.Add(interval)
	b.inFlight++
	return checked, b.coveredBy(checked), 0
}

// coveredBy removes from wanted the contenders that wait for one of checked, and returns
// them. It drops those that no longer wait. The caller holds mu.
func (b *heartbeatState) coveredBy(checked []*nodes.Node) (covered []*proofRequest) {
	isChecked := make(map[*nodes.Node]bool, len(checked))
	for _, n := range checked {
		isChecked[n] = true
	}
	rest := b.wanted[:0]
	for _, w := range b.wanted {
		switch {
		case w.gone.Load():
		case isChecked[w.node]:
			covered = append(covered, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(b.wanted[len(rest):])
	b.wanted = rest
	return covered
}

// moved records the session's deadline when a heartbeat has ended, and returns the one when the heartbeat before had ended.
func (b *heartbeatState) moved(deadline time.Time) (before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.deadline = b.deadline, deadline
	return before
}

// hasten makes the next heartbeat due no later than the interval after the last.
func (b *heartbeatState) hasten(interval time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next := b.last.Add(interval); next.Before(b.next) {
		b.next = next
	}
}

// end records that a heartbeat was answered, or has failed. again are the contenders that
// wait for the next one. next, if not zero, is when the next one is due at the latest.
func (b *heartbeatState) end(again []*proofRequest, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	if !next.IsZero() && next.Before(b.next) {
		b.next = next
	}
	b.wanted = append(b.wanted, again...)
}
