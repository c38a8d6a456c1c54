// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Code names a refusal of the service. The errors of this package match it, as in errors.Is(err, LockExpired).
type Code string

// All codes that a caller can get. docs/service-api.md states their meaning.
const (
	MalformedRequest       Code = "MALFORMED_REQUEST"
	Unauthenticated        Code = "UNAUTHENTICATED"
	Forbidden              Code = "FORBIDDEN"
	NotLockOwner           Code = "NOT_LOCK_OWNER"
	RouteNotFound          Code = "ROUTE_NOT_FOUND"
	LockNotFound           Code = "LOCK_NOT_FOUND"
	MethodNotAllowed       Code = "METHOD_NOT_ALLOWED"
	BodyTimeout            Code = "BODY_TIMEOUT"
	LockAlreadyHeld        Code = "LOCK_ALREADY_HELD"
	RequestSuperseded      Code = "REQUEST_SUPERSEDED"
	HolderChanged          Code = "HOLDER_CHANGED"
	HolderCannotBeNotified Code = "HOLDER_CANNOT_BE_NOTIFIED"
	LockExpired            Code = "LOCK_EXPIRED"
	LockReleased           Code = "LOCK_RELEASED"
	LockRevoked            Code = "LOCK_REVOKED"
	LeaseExhausted         Code = "LEASE_EXHAUSTED"
	BodyTooLarge           Code = "BODY_TOO_LARGE"
	UnsupportedMediaType   Code = "UNSUPPORTED_MEDIA_TYPE"
	InvalidRequest         Code = "INVALID_REQUEST"
	RequestMismatch        Code = "REQUEST_MISMATCH"
	TooManyRequests        Code = "TOO_MANY_REQUESTS"
	TooManyWaiters         Code = "TOO_MANY_WAITERS"
	TooManyKeys            Code = "TOO_MANY_KEYS"
	InternalError          Code = "INTERNAL_ERROR"
	ActionNotRecorded      Code = "ACTION_NOT_RECORDED"
	Unavailable            Code = "UNAVAILABLE"
)

// Error returns the code.
func (c Code) Error() string { return string(c) }

// A Problem is a refusal of the service, or of a proxy in front of it, in which case Code is empty.
type Problem struct {
	Status int    `json:"status"`
	Code   Code   `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Errors []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"` // what is wrong with the request, with InvalidRequest

	CurrentOwner     string        `json:"currentOwner"`     // the holder, with LockAlreadyHeld; empty if none is granted the lock yet
	FencingToken     fencing.Token `json:"fencingToken"`     // the token of the first contender, with HolderChanged
	RetryAfterMillis int64         `json:"retryAfterMillis"` // an estimate
	RevokedBy        string        `json:"revokedBy"`        // with LockRevoked
	Reason           string        `json:"reason"`           // with LockRevoked
}

// Error returns the code, the title and what is known besides.
func (p *Problem) Error() string {
	text := "status " + strconv.Itoa(p.Status)
	if p.Code != "" {
		text = string(p.Code) + ": " + p.Title
	}
	switch {
	case p.CurrentOwner != "":
		text += fmt.Sprintf(": held by %q", p.CurrentOwner)
	case p.Code == HolderChanged && p.FencingToken.Valid():
		text += fmt.Sprintf(": the first contender has token %v", p.FencingToken)
	case p.Code == LockRevoked:
		text += fmt.Sprintf(": by %q, %s", p.RevokedBy, p.Reason)
	case p.Detail != "":
		text += ": " + p.Detail
	}
	for _, e := range p.Errors {
		text += fmt.Sprintf(": %s: %s", e.Location, e.Message)
	}
	return text
}

// Is reports whether target is the problem's code.
func (p *Problem) Is(target error) bool { return p.Code != "" && target == p.Code }

// What a caller does next depends on these errors.
var (
	// ErrLost is matched by the error of a hold that has ended, which matches the cause, too: ErrDeadline, ErrReleased, or
	// the Code of the Problem with which the service refused the renewal.
	ErrLost = errors.New("hold lost")
	// ErrDeadline is the cause if the lease was not renewed in time.
	ErrDeadline = errors.New("no renewal in time")
	// ErrReleased is the cause if the holder unlocked the hold.
	ErrReleased = errors.New("released")

	// ErrUnavailable is matched by the error of a call that ended before a replica gave a definite answer.
	ErrUnavailable = errors.New("no definite answer of the service")
	// ErrUncertain is matched by the error of a call that may have left a lease or a waiter behind. A lease ends after
	// its TTL, and a waiter within 31 s.
	ErrUncertain = errors.New("withdrawal not confirmed")
	// ErrClosed is the error of calls of a closed client.
	ErrClosed = errors.New("client closed")
)

// An Error is the failure of an operation on a lock.
type Error struct {
	Op     string // lock, campaign, hold, unlock, read, list, observe, release or reach
	Object string // namespace/key, or the service
	Err    error
}

// Error returns operation, object and cause.
func (e *Error) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// definite reports whether err is a refusal that a repeated request would meet again. After any other error the outcome of
// the request is unknown, or it was not carried out for now.
func definite(err error) bool {
	var p *Problem
	if !errors.As(err, &p) || p.Code == RequestSuperseded {
		return false
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return p.Status < http.StatusInternalServerError
}

// settled reports whether err is an answer to an acquisition after which it has no lease and no waiter.
func settled(err error) bool {
	var p *Problem
	return errors.As(err, &p) && (p.Code == LockAlreadyHeld || p.Code != "" && p.Status == http.StatusGone)
}

// unavailable returns the error of a call that ended with ctx, after a last failure.
func unavailable(ctx context.Context, last error) error {
	return fmt.Errorf("%w: %w: %w", causeOf(ctx), ErrUnavailable, last)
}

// causeOf returns the error of a context that is done, with its cause if that is another.
func causeOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}
