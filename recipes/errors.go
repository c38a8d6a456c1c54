// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

var errNilContext = errors.New("context is nil")

// ErrLost is returned when a claim is no longer held. It always comes with one
// of the causes below it, so that errors.Is holds for both.
var ErrLost = errors.New("claim lost")

// Causes of a loss: what ended a claim or a session.
var (
	// ErrSessionExpired is returned when ZooKeeper ended the session, or when no
	// server of it could be reached for twice the session timeout: the client
	// then gives the session up, which an ensemble that was down as a whole may
	// not have ended yet.
	ErrSessionExpired = session.ErrSessionExpired

	// ErrDeadline is returned when the local deadline passed without a proof
	// that the session lives. The ensemble may not have ended it yet: being
	// told first is the point.
	ErrDeadline = session.ErrDeadline

	// ErrDeleted is returned when the claim's own node was deleted, or written
	// to, by somebody else.
	ErrDeleted = session.ErrDeleted

	// ErrReleased is returned when the holder itself gave the claim up.
	ErrReleased = errors.New("released")

	// ErrClosed is returned when the client was closed.
	ErrClosed = session.ErrClosed
)

// ErrUncertain is returned when an operation may or may not have happened: it
// was sent, and its answer did not come back, because the call's bounds were
// reached or the connection broke.
var ErrUncertain = session.ErrUncertain

// Error says which operation failed, on which path, and why.
//
// Path is empty where an operation has none. Unwrap reaches the cause, so that
// errors.Is finds the sentinels of this package, the errors of the ZooKeeper
// client and those of a context.
type Error struct {
	Op   string // the operation: "connect", "join", "release", …
	Path string // the node or server that it was about
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

// lost is the error of a claim on path that ended for cause.
func lost(path string, cause error) error {
	return &Error{Op: "hold", Path: path, Err: fmt.Errorf("%w: %w", ErrLost, cause)}
}

// withCtx adds to err, that is about to be returned to the caller, the error of ctx
// and its cause, if ctx is done and err does not say so. Inside the package the
// cause is kept out: it can be anything, an earlier answer of a server among them.
func withCtx(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}
