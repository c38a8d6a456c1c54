// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"errors"
	"fmt"
	"time"

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
