// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"maps"
	"sync"
	"time"
)

// A state has a value for each key, such as "a.process" or "fenced.value".
type state map[string]any

// The kinds of events, by which the page draws them.
const (
	kindFault    = "fault"    // a fault, caused by the user or a preset
	kindAct      = "act"      // the end of a fault, or an order to a contender
	kindNote     = "note"     // a step of a preset that explains
	kindQueue    = "queue"    // ZooKeeper has changed the queue or a session
	kindInfo     = "info"     // a report of a contender
	kindGrant    = "grant"    // a contender was granted the lock
	kindLoss     = "loss"     // a contender was notified of a loss
	kindWrite    = "write"    // a register has accepted the write of the newest holder
	kindStale    = "stale"    // a register has accepted the write of an older holder
	kindRejected = "rejected" // a register has rejected the write of an older holder
	kindError    = "error"    // an operation has failed
)

// An Event is a row of the timeline. Its state is the difference to the state before it.
type Event struct {
	ID    int    `json:"id"` // counted from 1
	At    int64  `json:"at"` // in milliseconds since the journal began
	Who   string `json:"who"`
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	State state  `json:"state,omitempty"`
}

// keptEvents bounds the events of a laboratory that runs for days. The state before them is kept as one.
const keptEvents = 2000

// A journal has the events, in the order in which they were added. It is safe for concurrent use.
type journal struct {
	began time.Time

	mu     sync.Mutex // guards what follows
	last   int        // id of the newest event
	before state      // after the events that were dropped
	now    state      // after all events
	events []Event
	grown  chan struct{} // closed and replaced with each event
}

func newJournal() *journal {
	return &journal{began: time.Now(), before: state{}, now: state{}, grown: make(chan struct{})}
}

// add appends an event. The difference must not be changed afterwards.
func (j *journal) add(who, kind, text string, difference state) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	maps.Copy(j.now, difference)
	j.events = append(j.events, Event{ID: j.last, At: time.Since(j.began).Milliseconds(), Who: who, Kind: kind, Text: text, State: difference})
	if len(j.events) > keptEvents {
		maps.Copy(j.before, j.events[0].State)
		j.events[0] = Event{} // the array may stay in use for long
		j.events = j.events[1:]
	}
	j.wakeAll()
}

// wake wakes those that wait for a change.
func (j *journal) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wakeAll()
}

// wakeAll is wake for a caller that holds mu.
func (j *journal) wakeAll() {
	close(j.grown)
	j.grown = make(chan struct{})
}

// since returns the events after the one with an id, and a channel that is closed when there are more. If some of them were
// dropped, before is the state ahead of the first one that is returned.
func (j *journal) since(id int) (before state, events []Event, grown <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := j.last - len(j.events) + 1
	skip := id + 1 - first
	if skip < 0 {
		before, skip = maps.Clone(j.before), 0
	}
	return before, append([]Event(nil), j.events[min(skip, len(j.events)):]...), j.grown
}

// value returns a value of the present state, and a channel that is closed when the state may have changed.
func (j *journal) value(key string) (any, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now[key], j.grown
}
