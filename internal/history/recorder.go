// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"sync"
	"time"
)

// A Recorder takes the events of a run that happens in one process, or whose processes share a clock. Safe for
// concurrent use.
//
// The order of the lines is that of the calls of Add. So what a contender tells before it asks for something and after
// it was answered brackets what happened in between, whatever the clock can tell apart.
type Recorder struct {
	began time.Time

	mu      sync.Mutex // guards what follows
	events  []Event
	attempt int
	write   int
}

// NewRecorder begins a history now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Add notes that an event happens now.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(time.Now(), e) // under the lock, so that lines and instants agree
}

// AddAt notes an event that happened then: one that somebody else saw.
func (r *Recorder) AddAt(at time.Time, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(at, e)
}

// addLocked is AddAt for a caller that holds mu.
func (r *Recorder) addLocked(at time.Time, e Event) {
	e.At = Instant(at.Sub(r.began))
	e.Line = len(r.events) + 1
	r.events = append(r.events, e)
}

// NextAttempt numbers an attempt.
func (r *Recorder) NextAttempt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt++
	return r.attempt
}

// NextWrite numbers what is sent to the ensemble.
func (r *Recorder) NextWrite() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write++
	return r.write
}

// Since is the instant of t in this history.
func (r *Recorder) Since(t time.Time) Instant { return Instant(t.Sub(r.began)) }

// Events are those that were told so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
