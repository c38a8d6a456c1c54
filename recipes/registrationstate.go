// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// ErrTaken is returned when another session has the node of a registration. It comes in a
// *TakenError.
var ErrTaken = errors.New("taken by another session")

// A TakenError describes the node that is in the way of a registration. It wraps ErrTaken.
type TakenError struct {
	Session int64     // that the node belongs to
	Since   time.Time // when the node was created, by the clock of the ensemble's leader
	Data    []byte    // of the node
}

// Error names the session.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%v, %s, since %s", ErrTaken, session.FormatID(e.Session), e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrTaken.
func (e *TakenError) Unwrap() error { return ErrTaken }

// errUnserved is the cause while a session cannot be said to live.
var errUnserved = errors.New("no server has served the session for a quarter of its timeout")

// A RegistrationState describes a registration at one moment.
type RegistrationState struct {
	// Registered reports whether the node exists, provided that the server of the session has
	// contact with its leader and this process is scheduled. It is false until the first
	// registration, between two sessions, after an operator deleted the node until it is restored,
	// and when no server has served the session for T/4: from then on the ensemble may expire it.
	Registered bool
	Session    int64     // in which the node is registered, 0 if in none
	Since      time.Time // when the session got the node, or lost it
	Cause      error     // why Registered is false: the end of a session, a *TakenError, …; nil if it is true
}

// String describes the state in one line.
func (s RegistrationState) String() string {
	since := s.Since.Format(time.RFC3339Nano)
	switch {
	case s.Registered:
		return fmt.Sprintf("registered in session %s since %s", session.FormatID(s.Session), since)
	case s.Cause != nil:
		return fmt.Sprintf("not registered since %s: %v", since, s.Cause)
	}
	return "not registered since " + since
}

// State returns the current state. It does no I/O.
func (r *Registration) State() RegistrationState {
	state, _, _ := r.observe()
	return state
}

// States yields the current state, and then each later one. A reader that is slower than the
// changes skips to the newest. The sequence ends when ctx is done, or with the state at the end of
// the registration. Any number of readers may run at the same time.
func (r *Registration) States(ctx context.Context) iter.Seq[RegistrationState] {
	return func(yield func(RegistrationState) bool) {
		if ctx == nil {
			return
		}
		last := RegistrationState{Session: -1} // no state
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
func (r *Registration) observe() (state RegistrationState, s *client.Session, changed <-chan struct{}) {
	r.mu.Lock()
	state = RegistrationState{Since: r.since, Cause: r.cause}
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
					timer := time.NewTimer(left)
					defer timer.Stop()
					unserved = timer.C
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
