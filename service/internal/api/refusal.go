// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/locktoken"
	"github.com/lockkeeper/lockkeeper/service/internal/quota"
)

// refuse returns the problem of an error of the lease protocol. What it does not know is UNAVAILABLE, whose meaning is
// that the outcome is unknown: of an unknown error that is always true.
func refuse(err error) *Problem {
	var (
		p        *Problem
		held     *lease.HeldError
		revoked  *lease.RevokedError
		mismatch *lease.MismatchError
		front    *lease.FrontError
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &held):
		p = problem(LockAlreadyHeld, "").retryAfter(held.RetryAfter)
		p.CurrentOwner = held.Holder()
	case errors.Is(err, lease.ErrSuperseded):
		p = problem(Superseded, "The newer call has the answer. If there is none, the waiter was deleted: repeat the request.")
	case errors.As(err, &revoked):
		p = problem(LockRevoked, "Stop the work immediately.")
		p.RevokedBy, p.Reason = revoked.By, revoked.Reason
	case errors.As(err, &mismatch):
		p = problem(Mismatch, "An earlier request with the same requestId had another "+mismatch.Field+".")
	case errors.As(err, &front):
		p = problem(HolderChanged, "")
		p.FencingToken = front.Token.String()
	case errors.Is(err, lease.ErrCannotNotify):
		p = problem(CannotNotify, "With mode now the lock is released, and only the fencing token protects the resource.")
	case errors.Is(err, lease.ErrReleased):
		p = problem(LockReleased, "Use a new requestId to acquire the lock again.")
	case errors.Is(err, lease.ErrGone):
		p = problem(LockExpired, "It expired, or was released.")
	case errors.Is(err, lease.ErrExhausted):
		p = problem(LeaseExhausted, "Release the lock, and acquire it again.")
	case errors.Is(err, lease.ErrNotFound):
		p = problem(LockNotFound, "")
		p.Locked = new(bool)
	case errors.Is(err, quota.ErrFull):
		p = problem(TooManyKeys, "Release locks, or use another namespace. A long key counts as several.").retryAfter(fullRetry)
	case errors.Is(err, locktoken.ErrInvalid), errors.Is(err, lease.ErrNotOwner):
		p = problem(NotLockOwner, "")
	default:
		p = problem(Unavailable, "Repeat the request, with the same requestId.").retryAfter(unavailableRetry)
	}
	return p.because(err)
}
