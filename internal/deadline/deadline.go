// SPDX-License-Identifier: Apache-2.0

// Package deadline computes until when a client may believe that its session lives.
package deadline

import (
	"sync"
	"time"
)

// deadlineAfter returns the instant until which one proof, an answered quorum write,
// lets a session be believed to live.
//
// The leader counts the session timeout T from the last time that it heard of the
// session, which is not when it carried out the proof: a follower reports the sessions
// that it heard from only when the leader next pings it, every half tick. So the leader's
// count may have begun a gap before the proof was sent, and the answer may have taken a
// round trip. The remaining T/4 covers half a tick, for ticks of up to T/4, and the same
// again for a late ping.
func deadlineAfter(timeout time.Duration, sent time.Time, gap, roundTrip time.Duration) time.Time {
	return sent.Add(timeout*3/4 - gap - roundTrip)
}

// longestGap returns the longest time between answered packets in the window before
// sent. A gap that reaches into the window counts whole. answered is ascending.
func longestGap(answered []time.Time, sent time.Time, window time.Duration) time.Duration {
	var longest time.Duration
	next := sent
	for i := len(answered) - 1; i >= 0; i-- {
		if answered[i].After(sent) {
			continue
		}
		longest = max(longest, elapsed(answered[i], next))
		next = answered[i]
		if sent.Sub(next) >= window {
			break
		}
	}
	return longest
}

// elapsed returns the time from one instant to another by the monotonic clock, or by
// the wall clock if that is longer: the monotonic clock stands still while the machine
// is suspended.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// A Lease computes how long a session may be believed to live, from the packets that
// the ensemble answered and from proofs. It is safe for concurrent use.
type Lease struct {
	mu         sync.Mutex       // guards what follows
	timeout    time.Duration    // T, as negotiated
	answered   []time.Time      // when answered packets were sent, ascending and thinned
	roundTrips [2]time.Duration // of the last two proofs
	until      time.Time        // the largest deadline of all proofs
	proved     time.Time        // when the last proof was sent
	gap        time.Duration    // of the last proof
}

// New returns a Lease without a proof, for a session that asks for T = timeout.
func New(timeout time.Duration) *Lease { return &Lease{timeout: timeout} }

// Renegotiate sets T to the timeout that the latest server granted. Servers of one
// ensemble that clamp it differently are misconfigured; a shorter timeout also shortens
// the current deadline.
func (l *Lease) Renegotiate(timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.until.IsZero() && timeout < l.timeout {
		l.until = l.until.Add((timeout - l.timeout) * 3 / 4)
	}
	l.timeout = timeout
}

// Timeout returns T, as negotiated.
func (l *Lease) Timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeout
}

// Packet records when a packet of any kind was sent that has been answered.
func (l *Lease) Packet(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.answered)
	if n > 0 && !sent.After(l.answered[n-1]) {
		return
	}
	// A busy session is answered thousands of times a second. Keeping one
	// instant per T/64 overstates a gap by that much at most, on the safe side.
	if n > 1 && sent.Sub(l.answered[n-2]) < l.timeout/64 {
		l.answered[n-1] = sent
		return
	}
	l.answered = append(l.answered, sent)
	// One instant beyond the window is enough to measure the gap that reaches into it.
	old := 0
	for old+1 < len(l.answered) && sent.Sub(l.answered[old+1]) > l.timeout {
		old++
	}
	l.answered = append(l.answered[:0], l.answered[old:]...)
}

// Proof records a quorum write that was sent and answered at these instants.
func (l *Lease) Proof(sent, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proved = sent
	l.roundTrips[0], l.roundTrips[1] = l.roundTrips[1], answered.Sub(sent)
	l.gap = longestGap(l.answered, sent, l.timeout/4)
	until := deadlineAfter(l.timeout, sent, l.gap, max(l.roundTrips[0], l.roundTrips[1]))
	if until.After(l.until) {
		l.until = until
	}
}

// LastProof returns when the last proof was sent, zero before the first.
func (l *Lease) LastProof() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proved
}

// Gap returns the longest time between answered packets in the T/4 before the last proof was sent.
func (l *Lease) Gap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gap
}

// Deadline returns the instant until which the session may be believed to live, zero
// before the first proof.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Left returns how long the session may be believed to live from now. It is not positive
// once the deadline has passed, or before the first proof.
func (l *Lease) Left(now time.Time) time.Duration {
	until := l.Deadline()
	if until.IsZero() {
		return 0
	}
	// The monotonic clock stands still while the machine is suspended; the wall
	// clock does not. The clock by which more time has passed counts: a step of the
	// wall clock can make the deadline pass early, never late.
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}
