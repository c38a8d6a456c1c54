// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var (
	// ErrSuperseded is returned when another call serves the same request, or has withdrawn it or released its lease. It is
	// returned, too, when an operator has deleted the request's node. A caller that still waits sends the request again.
	ErrSuperseded = errors.New("another call serves this request")

	// ErrReleased is returned when the request's lease was granted, and released.
	ErrReleased = errors.New("the request's lease was released")

	// ErrGone is returned when the lease has ended: it expired, or was released.
	ErrGone = errors.New("lease has ended")

	// ErrExhausted is returned when a lease cannot be written again. Release it, and acquire
	// another one.
	ErrExhausted = errors.New("lease can be written no more")

	// ErrNotOwner is returned when a token belongs to no lease of the request.
	ErrNotOwner = errors.New("token is not of a lease of this owner")

	// ErrReplaced wraps ErrGone, and is returned when the request has a newer lease.
	ErrReplaced = fmt.Errorf("%w, and its owner has a newer one", ErrGone)

	// ErrNotFound is returned when a path has no contender.
	ErrNotFound = errors.New("no contender")

	// ErrCannotNotify is returned when the holder does not learn of a forced release: use
	// Now if the resource checks the token.
	ErrCannotNotify = errors.New("holder cannot be notified")

	// ErrUncertain is returned when the outcome is unknown: send the same request again.
	ErrUncertain = recipes.ErrUncertain

	// ErrRevoked is wrapped by each *RevokedError.
	ErrRevoked = recipes.ErrRevoked
)

// A HeldError is returned when another contender is in front.
type HeldError struct {
	Path       string
	Front      Contender
	RetryAfter time.Duration // an estimate
}

// Holder returns the owner of the first contender if it holds the lock, and otherwise the empty string.
func (e *HeldError) Holder() string { return holder(e.Front) }

// Error names the first contender.
func (e *HeldError) Error() string {
	if e.Holder() == "" {
		return fmt.Sprintf("%s is not held, and %q (%s) waits for it", e.Path, e.Front.Owner, e.Front.Name)
	}
	return fmt.Sprintf("%s is held by %q (%s)", e.Path, e.Front.Owner, e.Front.Name)
}

// holder returns the owner of the first contender of a queue if it holds the lock. A lease in front that is not written as held
// is a waiter: it has not been granted the lock yet, and its caller may have died.
func holder(front Contender) string {
	if front.Lease != nil && !front.Held {
		return ""
	}
	return front.Owner
}

// A WaitingError is returned when a poll has ended and wait time is left. The request keeps
// its position if it is sent again within AskWithin.
type WaitingError struct {
	Path       string
	Position   int // contenders ahead
	Front      Contender
	RetryAfter time.Duration
	AskWithin  time.Duration
}

// Holder returns the owner of the first contender if it holds the lock, and otherwise the empty string.
func (e *WaitingError) Holder() string { return holder(e.Front) }

// Error names the position and the first contender.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for %s behind %d contenders, the first of which is %q (%s)", e.Path, e.Position, e.Front.Owner, e.Front.Name)
}

// A RevokedError is returned when an administrator has revoked the lease.
type RevokedError = recipes.RevokedError

// A MismatchError is returned when a RequestID was sent before with another value of a
// parameter.
type MismatchError struct{ Field string }

// Error names the parameter.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s differs from the one in an earlier request with the same requestId", e.Field)
}

// A FrontError is returned by ForceRelease when another contender is in front.
type FrontError struct{ Token fencing.Token }

// Error names the token of the front.
func (e *FrontError) Error() string {
	return fmt.Sprintf("the contender in front has token %d", e.Token)
}
