// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errUnserved is the cause while a session cannot be said to live.
var errUnserved = errors.New("no server has served the session for a quarter of its timeout")

// State returns the current state. It does no I/O.
func (r *Registration) State() recipes.RegistrationState {
	state, _, _ := r.observe()
	return state
}

// States yields the current state, and then each later one. A reader that is slower than the
// changes skips to the newest. The sequence ends when ctx is done, or with the state at the end of
// the registration. Any number of readers may run at the same time.
func (r *Registration) States(ctx context.Context) iter.Seq[recipes.RegistrationState] {
	return func(yield func(recipes.RegistrationState) bool) {
		if ctx == nil {
			return
		}
		last := recipes.RegistrationState{Session: -1} // no state
		for ctx.Err() == nil {
			// Before the state is read, so that the last one is yielded.
			ended := r.Err() != nil
			state, s, changed := r.observe()
			if state != last {
				last = state
				if !yield(state) {
					return
				}
			}
			if ended {
				return
			}
			awaitChange(ctx, s, changed)
		}
	}
}

// observe returns the state, the session in which the node is registered, if it is, and a channel
// that is closed when anything but the state of that session changes.
func (r *Registration) observe() (state recipes.RegistrationState, s *client.Session, changed <-chan struct{}) {
	r.mu.Lock()
	state = recipes.RegistrationState{Since: r.since, Cause: r.cause}
	s, changed = r.session, r.changed
	r.mu.Unlock()
	if s == nil {
		return state, nil, changed
	}
	status := s.Status()
	switch {
	case status.Ended != nil:
		state.Since, state.Cause = status.Since, status.Ended
		return state, s, changed
	case !status.Attached && time.Since(status.Since) >= status.Timeout/4:
		state.Cause = errUnserved
	default:
		state.Registered = true
	}
	state.Session = status.ID
	return state, s, changed
}

// awaitChange waits until changed is closed, or the session can have changed the state.
func awaitChange(ctx context.Context, s *client.Session, changed <-chan struct{}) {
	var over, other <-chan struct{}
	var unserved <-chan time.Time
	if s != nil {
		if over = s.Context().Done(); s.Ended() != nil {
			over = nil // the owner's turn
		}
		served, detached := s.Served()
		if other = detached; !served {
			other = s.Attached()
			if status := s.Status(); !status.Attached {
				// Once that has passed, only the session's return or end changes the state.
				if left := status.Timeout/4 - time.Since(status.Since); left > 0 {
					unserved = time.After(left)
				}
			}
		}
	}
	select {
	case <-changed:
	case <-over:
	case <-other:
	case <-unserved:
	case <-ctx.Done():
	}
}
