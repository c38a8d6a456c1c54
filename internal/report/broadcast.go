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

// A subscriber has the newest state that its reader has not taken.
type subscriber struct {
	wake chan struct{} // signals that newest or closed has changed

	mu     sync.Mutex      // guards what follows
	newest *session.Status // nil once it was taken
	closed bool            // no further state follows
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
	// A change since then was passed on already, or will be: it can be newer than the state that is read now.
	sub.offer(present(), false)
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

// send passes state to all subscribers.
func (b *broadcast) send(state session.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for sub := range b.subs {
		sub.offer(state, true)
	}
}

// close ends each subscription once its subscriber has taken the newest state.
func (b *broadcast) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for sub := range b.subs {
		sub.close()
	}
}

// offer makes state the newest, in place of one that was not taken only if it is newer.
func (s *subscriber) offer(state session.Status, newer bool) {
	s.mu.Lock()
	if newer || s.newest == nil {
		s.newest = &state
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
		if state := s.newest; state != nil {
			s.newest = nil
			s.mu.Unlock()
			return *state, ctx.Err() == nil
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
