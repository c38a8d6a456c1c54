// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// isRequest reports whether the packet is a request of the session's caller. The ZooKeeper client sends handshakes, pings,
// credentials and the watches that it sets again by itself, after each reconnection.
func (p packet) isRequest() bool {
	return p.xid > 0 && p.op != opSetWatches && p.op != opClose
}

// SilentFor reports whether a packet waits for its answer, and for how long the server has
// answered nothing since the packet was sent. A server that works through a long queue is not
// silent. A server answers no packet of a session before an earlier write of that session.
func (w *Wire) SilentFor(now time.Time) (asked bool, silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inFlight) == 0 {
		return false, 0
	}
	since := w.inFlight[0].sent
	if w.replied.After(since) {
		since = w.replied
	}
	return true, now.Sub(since)
}

// Unserved returns since when no request of the session was answered, on this connection or on those before, though at least
// one was sent, and whatever else was answered. It returns zero if none was sent since the last answer.
func (w *Wire) Unserved() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}
