// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
)

// Halfway puts a session into states that it passes through in an instant, for the tests of
// package recipes: what a caller gets must not depend on which goroutine comes first.
type Halfway struct{ *Session }

// Over has the session be over, and nothing of what was granted ended yet. undo takes it back.
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

// Taken has nothing be granted any more, as when a goroutine is about to end it.
func (h Halfway) Taken() {
	h.nodes.take()
}

// Lost has the node be lost, and nothing that stands on it ended yet.
func (h Halfway) Lost(n *Node) {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	n.orphaned = true
}

// Finish does what follows Over in the end of a session.
func (h Halfway) Finish() {
	h.cancel(h.Ended())
	h.quit()
}

// PassDeadline has the deadline pass, and the owner not look.
func (h Halfway) PassDeadline() {
	timeout := h.Timeout()
	h.lease.Renegotiate(0) // takes 3T/4 off the deadline
	h.lease.Renegotiate(timeout)
}

// Halted runs f while the owner stands still as soon as it looks.
func (h Halfway) Halted(f func(owner *background.Alarm)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.alarm)
}

// NextLook returns when the owner looks by itself.
func (h Halfway) NextLook() time.Time { return h.alarm.Next() }

// WithoutWatches runs f while every goroutine stands still that sets or drops a watch.
func (h Halfway) WithoutWatches(f func()) {
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	f()
}

// SendHeartbeat sends a heartbeat on behalf of a contender that waits for a proof of the node.
// answer waits for the outcome.
func (h Halfway) SendHeartbeat(n *Node) (answer func() error) {
	asked := &proofAsked{node: n, answered: make(chan struct{})}
	h.beats.mu.Lock()
	h.beats.inFlight = true
	h.beats.mu.Unlock()
	h.sendBeat(time.Now(), []*Node{n}, []*proofAsked{asked})
	return func() error {
		<-asked.answered
		return asked.err
	}
}
