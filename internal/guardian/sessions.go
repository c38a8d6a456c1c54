// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sessions are the sessions of one process. They are safe for concurrent use.
type Sessions struct {
	mu   sync.Mutex // guards what follows
	byID map[int64]*guarded
}

// guarded is a session.
type guarded struct {
	Session
	forget time.Time // the session has ended by then; zero while it lives
}

// NewSessions returns no sessions.
func NewSessions() *Sessions { return &Sessions{byID: map[int64]*guarded{}} }

// Guard adds a session.
func (s *Sessions) Guard(added Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id, other := range s.byID {
		if !other.forget.IsZero() && !now.Before(other.forget) {
			delete(s.byID, id)
		}
	}
	s.byID[added.ID] = &guarded{Session: added}
}

// Forget has the session forgotten 2 T after its end, as the process sees it. The close of a session may not be answered, and a
// session that was abandoned may live: both end by then.
func (s *Sessions) Forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byID[id]; known != nil && known.forget.IsZero() {
		known.forget = time.Now().Add(2 * known.Timeout)
	}
}

// alive returns the sessions that may exist.
func (s *Sessions) alive() (sessions []Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.byID {
		if known.forget.IsZero() || time.Now().Before(known.forget) {
			sessions = append(sessions, known.Session)
		}
	}
	return sessions
}

// forgotten returns the time when the last session is forgotten, and reports whether each one has ended, as the process sees it.
func (s *Sessions) forgotten() (last time.Time, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.byID {
		if known.forget.IsZero() {
			return time.Time{}, false
		}
		if known.forget.After(last) {
			last = known.forget
		}
	}
	return last, true
}

// Close closes the sessions of a process that has died, after kill has returned nil. It gives each up after T/2.
func (s *Sessions) Close(dial DialFunc, kill func(ctx context.Context) error) error {
	died := time.Now()
	sessions := s.alive()
	longest := time.Duration(0)
	for _, known := range sessions {
		longest = max(longest, known.Timeout)
	}
	bounded, cancel := context.WithDeadline(context.Background(), died.Add(longest/2))
	defer cancel()
	if err := kill(bounded); err != nil {
		return err // what runs on may write, and so the sessions expire
	}
	errs := make([]error, len(sessions))
	var all sync.WaitGroup
	for i, known := range sessions {
		all.Go(func() {
			ctx, cancel := context.WithDeadline(bounded, died.Add(known.Timeout/2))
			defer cancel()
			if err := known.close(ctx, dial); err != nil && !errors.Is(err, errGone) {
				errs[i] = fmt.Errorf("session 0x%x: %w", uint64(known.ID), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
