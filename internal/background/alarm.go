// SPDX-License-Identifier: Apache-2.0

package background

import (
	"sync"
	"time"
)

// An Alarm wakes a loop, immediately or by an instant. The loop receives from Rings and
// from its own timer. For each round it calls Begin before it reads any state, and End to
// learn how long to sleep. It is safe for concurrent use; one loop uses it.
type Alarm struct {
	rings chan struct{}

	mu   sync.Mutex // guards what follows
	next time.Time  // when the loop wakes by itself
	by   time.Time  // the earliest instant that was asked for in this round
}

// NewAlarm returns an Alarm for a loop that has not begun.
func NewAlarm() *Alarm { return &Alarm{rings: make(chan struct{}, 1)} }

// Rings returns the channel that the loop receives from.
func (a *Alarm) Rings() <-chan struct{} { return a.rings }

// Ring wakes the loop immediately. It does not wait.
func (a *Alarm) Ring() {
	select {
	case a.rings <- struct{}{}:
	default:
	}
}

// By wakes the loop by that instant. It does nothing if the loop wakes earlier by itself:
// a quick succession of requests would otherwise wake it for each.
func (a *Alarm) By(by time.Time) {
	a.mu.Lock()
	late := a.next.After(by)
	if late {
		a.by, a.next = by, by
	}
	a.mu.Unlock()
	if late {
		a.Ring()
	}
}

// Begin starts a round of the loop at now. A By that follows wakes the loop again, because
// this round may have read the state already.
func (a *Alarm) Begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = now.Add(time.Hour)
}

// End returns how long the loop sleeps after the round that began at now: at most next, and
// less if By was called with an earlier instant.
func (a *Alarm) End(now time.Time, next time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by.After(now) {
		next = min(next, a.by.Sub(now))
	}
	a.next = now.Add(next)
	return next
}

// Next returns when the loop wakes by itself: an hour hence while it is in a round.
func (a *Alarm) Next() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}
