// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A State is where a client stands with its ensemble, at a moment.
type State struct {
	Session  int64         // id of the newest session
	Timeout  time.Duration // its session timeout T
	Attached bool          // a server serves the session
	Server   string        // that serves it, or did last
	Since    time.Time     // when Attached became what it is
	Proof    time.Time     // when the last write was sent that a quorum answered; zero if there was none
	Ended    error         // why the session is over, nil while it is not
}

// String describes the state in one line.
func (s State) String() string {
	since := s.Since.Format(time.RFC3339Nano)
	switch {
	case s.Ended != nil:
		return fmt.Sprintf("session %s ended: %v", hex(s.Session), s.Ended)
	case s.Attached:
		return fmt.Sprintf("session %s attached to %s since %s", hex(s.Session), s.Server, since)
	}
	return fmt.Sprintf("session %s detached from %s since %s", hex(s.Session), s.Server, since)
}

// State returns where the client stands now. It does no I/O.
func (c *Client) State() State { return stateOf(c.newest().Status()) }

func stateOf(s session.Status) State {
	return State{
		Session: s.ID, Timeout: s.Timeout, Attached: s.Attached, Server: s.Server,
		Since: s.Since, Proof: s.Proof, Ended: s.Ended,
	}
}

// Ready returns nil if the client can be used, and otherwise an error that says since
// when it cannot, and why: it is what a readiness probe asks for. It does no I/O.
//
// A client is ready while a server serves its session, and for T/4 after: what heals
// within T/4 costs no claim. It is not ready between two sessions, and never again once
// it is closed.
func (c *Client) Ready() error {
	if c.closing.Err() != nil {
		return &Error{Op: "ready", Err: ErrClosed}
	}
	state := c.State()
	switch {
	case state.Ended != nil:
		return &Error{Op: "ready", Err: fmt.Errorf("no session since %s (%w): %w", state.Since.Format(time.RFC3339), state.Ended, c.why())}
	case state.Attached, time.Since(state.Since) < state.Timeout/4:
		return nil
	}
	return &Error{Op: "ready", Err: fmt.Errorf("no server has served the session since %s: %w", state.Since.Format(time.RFC3339), c.why())}
}

// States yields the client's state, and then its state after each change: a session
// that is opened or over, attached or detached. Each subscriber gets every change, in
// order, however slow it is; its queue grows meanwhile. It ends when ctx is done or the
// client is closed. Proof does not count as a change.
//
// Any number of subscribers may run at the same time.
func (c *Client) States(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		if ctx == nil {
			return
		}
		sub := c.report.states.subscribe(c.State)
		defer c.report.states.unsubscribe(sub)
		for {
			state, ok := sub.next(ctx)
			if !ok || !yield(state) {
				return
			}
		}
	}
}

// A broadcast passes states on to subscribers. Safe for concurrent use.
type broadcast struct {
	mu     sync.Mutex // guards what follows
	subs   map[*subscriber]struct{}
	closed bool
}

// A subscriber is a queue of states.
type subscriber struct {
	wake chan struct{} // says that queue or closed has changed

	mu     sync.Mutex // guards what follows
	queue  []State
	closed bool // no further state is to come
}

// subscribe returns a subscriber that begins with the present state.
func (b *broadcast) subscribe(present func() State) *subscriber {
	sub := &subscriber{wake: make(chan struct{}, 1)}
	b.mu.Lock()
	if b.subs == nil {
		b.subs = make(map[*subscriber]struct{})
	}
	b.subs[sub] = struct{}{}
	closed := b.closed
	b.mu.Unlock()
	// A change that comes in between is in the queue already: what is read now is at
	// least as new, and stands before it.
	sub.push(present(), true)
	if closed {
		sub.close()
	}
	return sub
}

func (b *broadcast) unsubscribe(sub *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, sub)
}

// send gives all subscribers a state.
func (b *broadcast) send(state State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for sub := range b.subs {
		sub.push(state, false)
	}
}

// close ends all subscriptions, once what is queued was taken.
func (b *broadcast) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for sub := range b.subs {
		sub.close()
	}
}

func (s *subscriber) push(state State, first bool) {
	s.mu.Lock()
	if first {
		s.queue = append([]State{state}, s.queue...)
	} else {
		s.queue = append(s.queue, state)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next returns the next state, or false if there is none to come.
func (s *subscriber) next(ctx context.Context) (State, bool) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			state := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return state, ctx.Err() == nil
		}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return State{}, false
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return State{}, false
		}
	}
}
