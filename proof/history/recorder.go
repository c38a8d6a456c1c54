// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"sync"
	"time"
)

// A Recorder collects the events of a run in one process, or of processes that share a clock. It is safe for concurrent
// use.
//
// Lines are in the order of the calls to Add. So the two events that a contender adds before a request and after its
// answer enclose everything that happened in between, whatever the resolution of the clock.
type Recorder struct {
	began time.Time

	mu      sync.Mutex // guards what follows
	events  []Event
	attempt int
	write   int
}

// NewRecorder returns an empty recorder whose instants count from now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Add records an event at the current instant.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(time.Now(), e) // under the lock, so that lines and instants agree
}

// AddAt records an event that happened at another instant, which another component observed.
func (r *Recorder) AddAt(at time.Time, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(at, e)
}

// addLocked is AddAt for a caller that has locked mu.
func (r *Recorder) addLocked(at time.Time, e Event) {
	e.At = Instant(at.Sub(r.began))
	e.Line = len(r.events) + 1
	r.events = append(r.events, e)
}

// NextAttempt returns the number of a new attempt, from 1.
func (r *Recorder) NextAttempt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt++
	return r.attempt
}

// NextWrite returns the number of a new write to the ensemble, from 1.
func (r *Recorder) NextWrite() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write++
	return r.write
}

// Since returns the instant of t in this history.
func (r *Recorder) Since(t time.Time) Instant { return Instant(t.Sub(r.began)) }

// Events returns a copy of the events recorded so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
