// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
)

// Halfway puts a session into transient states, for the tests of package recipes: the result
// of a call must not depend on which goroutine runs first.
type Halfway struct{ *Session }

// Over marks the session as over, without ending what was granted. undo reverts it.
func (h Halfway) Over(cause error) (undo func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = cause
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over = nil
	}
}

// Taken removes all grants, as a goroutine does that is about to end them.
func (h Halfway) Taken() {
	h.nodes.take()
}

// Lost marks the node as lost, without ending what was granted on it.
func (h Halfway) Lost(n *Node) {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	n.isLost = true
}

// Finish does what follows Over in the end of a session.
func (h Halfway) Finish() {
	h.cancel(h.Ended())
	h.quit()
}

// PassDeadline makes the deadline pass without waking the owner.
func (h Halfway) PassDeadline() {
	timeout := h.Timeout()
	h.lease.Renegotiate(0) // takes 3T/4 off the deadline
	h.lease.Renegotiate(timeout)
}

// Halted runs f while the owner blocks as soon as it wakes.
func (h Halfway) Halted(f func(owner *background.Alarm)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.alarm)
}

// NextLook returns when the owner wakes by itself.
func (h Halfway) NextLook() time.Time { return h.alarm.Next() }

// WithoutWatches runs f while every goroutine that sets or drops a watch blocks.
func (h Halfway) WithoutWatches(f func()) {
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	f()
}

// SendHeartbeat sends a heartbeat for a contender that waits for a proof of the node.
// answer waits for the outcome.
func (h Halfway) SendHeartbeat(n *Node) (answer func() error) {
	asked := &proofRequest{node: n, answered: make(chan struct{})}
	h.beats.mu.Lock()
	h.beats.inFlight = true
	h.beats.mu.Unlock()
	h.sendBeat(time.Now(), []*Node{n}, []*proofRequest{asked})
	return func() error {
		<-asked.answered
		return asked.err
	}
}
