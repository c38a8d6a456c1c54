// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A Library is what contenders contend with: this one, or one of others. What they ask for, how long they hold it, what
// they write meanwhile and what they tell is the same with each.
type Library interface {
	// Connect makes a client, with a session of its own where the library has sessions. ctx bounds the call only.
	Connect(ctx context.Context, spec *Spec) (Client, error)
	// Offers says whether there is something to be asked for: "lock" that ctx can cancel, "try", "campaign". What is not
	// offered is not asked for: a lock that waits as long as it takes, which every library has, is in its place.
	Offers(how string) bool
	// Why says in a few words, of which there are not many, why something failed.
	Why(err error) string
}

// A Client acquires one thing at a time, but for that of Spec.Waiters and Spec.Holds, which acquires many.
type Client interface {
	// Acquire asks for a path. It returns an error that matches ErrHeld where "try" finds it held.
	Acquire(ctx context.Context, how, path string) (Hold, error)
	// Close gives up what is held, and returns when nothing of the client runs any more.
	Close()
}

// A Hold is what was acquired: a lock, a term. One that also has a method Deadline, which returns the time.Time at which it
// ends without further proof that its session lives, has it stated in the history.
type Hold interface {
	// Grant has what is known of the grant: Token, Node, Session.
	Grant() history.Event
	// Done is closed when the holder is told that it holds no longer, and when it has given it up.
	Done() <-chan struct{}
	// Cause says why, after Done.
	Cause() history.Cause
	// GiveUp gives it back. Done is closed when it returns, whatever it returns.
	GiveUp(ctx context.Context) error
}

// ErrHeld says that another holds what was tried.
var ErrHeld = errors.New(heldByAnother)

// A BrokenError is one after which the client is closed, and another one made.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Err }
