// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// ErrLost is returned when a claim is no longer held. It always comes with one
// of the causes below it, so that errors.Is holds for both.
var ErrLost = sentinel.ErrLost

// Causes of a loss: what ended a claim or a session.
var (
	// ErrSessionExpired is returned when ZooKeeper ended the session, or when no
	// server could be reached for twice the session timeout. The client then
	// abandons the session; an ensemble that was down as a whole may not have
	// ended it yet. It is also returned when a server has opened another session
	// in the place of this one, which then ends at its timeout.
	ErrSessionExpired = sentinel.ErrSessionExpired

	// ErrDeadline is returned when the local deadline passed without a proof
	// that the session is alive. The ensemble may not have ended the session yet:
	// the deadline notifies the holder first.
	ErrDeadline = sentinel.ErrDeadline

	// ErrDeleted is returned when the claim's own node was deleted, or written
	// to, by another client or an operator.
	ErrDeleted = sentinel.ErrDeleted

	// ErrRevoked is returned when an administrator has revoked the claim. Its node is
	// deleted T/4 later, or when the claim is released. The error is a *RevokedError.
	ErrRevoked = sentinel.ErrRevoked

	// ErrReleased is returned when the holder itself released the claim.
	ErrReleased = sentinel.ErrReleased

	// ErrClosed is returned when the client was closed.
	ErrClosed = sentinel.ErrClosed
)

// A RevokedError is the cause of a loss by a decision of an administrator. It wraps ErrRevoked.
type RevokedError struct{ By, Reason string }

// Error names the administrator and the reason.
func (e *RevokedError) Error() string { return fmt.Sprintf("revoked by %q: %s", e.By, e.Reason) }

// Unwrap returns ErrRevoked.
func (e *RevokedError) Unwrap() error { return ErrRevoked }

// ErrUncertain is returned when an operation may or may not have happened: it
// was sent, and its answer did not arrive before the call's bounds were reached
// or the connection broke.
var ErrUncertain = sentinel.ErrUncertain

// ErrYielded is the cause that Trace.Rejoined gets when a contender that could have been granted
// the claim has joined again at the end of the queue.
var ErrYielded = sentinel.ErrYielded

// ErrQueue is returned for a path that is the queue of a lock or an election, where another kind of node is needed.
var ErrQueue = sentinel.ErrQueue

// An Error reports which operation failed, on which path, and why.
//
// Path is empty where an operation has none. Unwrap reaches the cause, so that
// errors.Is finds the sentinels of this package, the errors of the ZooKeeper
// client and the errors of a context.
type Error struct {
	Op   string // the operation: "connect", "join", "release", …
	Path string // the node or server that it was for
	Err  error  // the cause
}

// Error returns the operation, the path and the cause in one line.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// revocationOf returns the *RevokedError of a record that is revoked, and otherwise nil.
func revocationOf(data []byte) error {
	r := protocol.DecodeRecord(data)
	if r.Revoked == nil {
		return nil
	}
	return &RevokedError{By: r.Revoked.By, Reason: r.Revoked.Reason}
}
