// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A broadcast passes states on to subscribers. It is safe for concurrent use.
type broadcast struct {
	mu     sync.Mutex // guards what follows
	subs   map[*subscriber]struct{}
	closed bool
}

// A subscriber is a queue of states.
type subscriber struct {
	wake chan struct{} // signals that queue or closed has changed

	mu     sync.Mutex // guards what follows
	queue  []session.Status
	closed bool // no further state follows
}

// subscribe returns a subscriber that begins with the current state.
func (b *broadcast) subscribe(present func() session.Status) *subscriber {
	sub := &subscriber{wake: make(chan struct{}, 1)}
	b.mu.Lock()
	if b.subs == nil {
		b.subs = make(map[*subscriber]struct{})
	}
	b.subs[sub] = struct{}{}
	closed := b.closed
	b.mu.Unlock()
	// A change since then is already in the queue. The state that is read now is at least
	// as new, and goes to the front.
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

// send queues state for all subscribers.
func (b *broadcast) send(state session.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for sub := range b.subs {
		sub.push(state, false)
	}
}

// close ends each subscription once its subscriber has taken the queued states.
func (b *broadcast) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for sub := range b.subs {
		sub.close()
	}
}

func (s *subscriber) push(state session.Status, first bool) {
	s.mu.Lock()
	if first {
		s.queue = append([]session.Status{state}, s.queue...)
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

// Next waits for the next state. It returns false if none follows or ctx is done.
func (s *subscriber) Next(ctx context.Context) (session.Status, bool) {
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
			return session.Status{}, false
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return session.Status{}, false
		}
	}
}
