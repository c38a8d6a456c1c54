// SPDX-License-Identifier: Apache-2.0

// Package lease computes until when a client may believe that its session lives.
package lease

import (
	"sync"
	"time"
)

// deadlineAfter is the instant until which a session may be believed to live on
// the strength of one proof: an answered quorum write.
//
// The leader counts the session timeout T from the last time that it heard of
// the session, which is not when it carried out the proof: a follower passes on
// whom it heard from only when the leader next pings it, every half tick. So the
// leader's count may have begun a gap before the proof was sent, and the answer
// may have been on its way for a round trip. The remaining T/4 covers half a
// tick, for ticks of up to T/4, with as much again for a late ping.
func deadlineAfter(timeout time.Duration, sent time.Time, gap, roundTrip time.Duration) time.Time {
	return sent.Add(timeout*3/4 - gap - roundTrip)
}

// longestGap is the longest time between answered packets in the window before
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

// elapsed is the time from one instant to another by the monotonic clock, or by
// the wall clock if that says more: the first stands still while a machine is
// suspended.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// A Lease says for how long a session may be believed to live. It is fed with
// the packets that the ensemble answered, and with proofs. It is safe for concurrent
// use.
type Lease struct {
	mu         sync.Mutex       // guards what follows
	timeout    time.Duration    // T, as negotiated
	answered   []time.Time      // when answered packets were sent, ascending and thinned
	roundTrips [2]time.Duration // of the last two proofs
	until      time.Time        // the largest deadline of all proofs
	proved     time.Time        // when the last proof was sent
}

// New returns a Lease without a proof, of a session whose timeout is to be T = timeout.
func New(timeout time.Duration) *Lease { return &Lease{timeout: timeout} }

// Renegotiate takes over the timeout that the latest server granted. Servers of
// one ensemble that clamp it differently are a mistake of configuration; a
// shorter one shortens what was believed before.
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

// Packet notes a packet that was answered, of whatever kind.
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

// Proof notes a quorum write that was sent and answered at these instants.
func (l *Lease) Proof(sent, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proved = sent
	l.roundTrips[0], l.roundTrips[1] = l.roundTrips[1], answered.Sub(sent)
	gap := longestGap(l.answered, sent, l.timeout/4)
	until := deadlineAfter(l.timeout, sent, gap, max(l.roundTrips[0], l.roundTrips[1]))
	if until.After(l.until) {
		l.until = until
	}
}

// LastProof is when the last proof was sent, zero before the first.
func (l *Lease) LastProof() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proved
}

// Deadline is the instant at which belief ends, zero before the first proof.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Left is how long belief lasts from now, not positive when it has ended.
func (l *Lease) Left(now time.Time) time.Duration {
	until := l.Deadline()
	if until.IsZero() {
		return 0
	}
	// The monotonic clock stands still while a machine is suspended; the wall
	// clock does not. Whichever says that more time has gone by is believed: a
	// step of the wall clock can end belief early, never late.
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}
