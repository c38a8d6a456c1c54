// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
)

// A Library is the lock library of a contender, this one or another.
type Library interface {
	// Connect returns a new client, with its own session if the library has sessions. ctx bounds only the call.
	Connect(ctx context.Context, spec *Spec) (Client, error)
	// Supports reports whether the library has an operation: a "lock" that ctx can cancel, "try", "campaign". Missing ones are
	// replaced by a lock that waits without a bound, which every library has.
	Supports(how string) bool
	// Reason returns the reason of a failure in a few words, from a small set.
	Reason(err error) string
}

// A Client acquires one path at a time, except the client for Spec.Waiters and Spec.Holds, which acquires many. If it also has a
// method Outstanding() int, which returns how many nodes of it may exist, the worker checks that there are none at the end.
type Client interface {
	// Acquire acquires a path with an operation, see Supports and Spec.ReadWrite. Its error matches ErrHeld if "try" finds the path held.
	Acquire(ctx context.Context, how, path string) (Hold, error)
	// Close releases all holds, and returns when no goroutine of the client runs any more.
	Close()
}

// A Hold is an acquired lock or term. If it also has a method Deadline() time.Time, which returns when it ends without a
// further proof of liveness, the history states that deadline.
type Hold interface {
	// Grant returns an event with the known fields of the grant: Token, Node, Session.
	Grant() history.Event
	// Done returns a channel that is closed when the hold has ended, by a loss or by its release. This notifies the holder.
	Done() <-chan struct{}
	// Cause returns the reason for the end, after Done.
	Cause() history.Cause
	// Release releases the hold. Done is closed when it returns, with or without an error.
	Release(ctx context.Context) error
}

// ErrHeld reports that another client holds the path that was tried.
var ErrHeld = errors.New(attempt.HeldByAnother)

// A BrokenError is an error after which the client is closed and replaced.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Err }
