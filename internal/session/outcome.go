// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// An Outcome is what an error reveals about its request.
type Outcome int

// The outcomes.
const (
	Done    Outcome = iota // the server carried it out
	Refused                // the server refused it: nothing was changed
	Unsent                 // it never left this process, or met a server that throttles requests: nothing was changed
	Unknown                // it may or may not have been carried out
)

// stated are the errors that only a server can return. The outcome of any other error is
// unknown: a broken connection returns many errors, raw network errors among them, and
// none of them reveals whether the request was carried out.
var stated = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth,
	zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrSessionExpired,
	zk.ErrAuthFailed, zk.ErrBadArguments,
}

// NotSent returns an error for a request that was never sent, because of err.
func NotSent(err error) error { return unsentErr{err} }

// unsentErr wraps the reason why a request was never sent.
type unsentErr struct{ error }

func (e unsentErr) Unwrap() error { return e.error }

// OutcomeOf returns the outcome of the request that failed with err.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, sentinel.ErrUncertain):
		return Unknown // whatever else it wraps
	}
	var u unsentErr
	if errors.As(err, &u) || failedUnsent(err) || isThrottled(err) || errors.Is(err, zk.ErrInvalidPath) || errors.Is(err, zk.ErrShortBuffer) {
		return Unsent
	}
	for _, s := range stated {
		if errors.Is(err, s) {
			return Refused
		}
	}
	return Unknown
}

// Retryable reports whether a request failed with its connection, or because the server throttles requests, so that sending it
// again may help. It may have been carried out, unless its outcome is Unsent.
func Retryable(err error) bool {
	var u unsentErr
	// The error of a context that has timed out is also a net.Error.
	if errors.As(err, &u) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return failedUnsent(err) || isThrottled(err) || errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) ||
		errors.As(err, &network)
}

// failedUnsent reports whether the ZooKeeper client failed a request before it was sent: by
// itself, or because of [dialer.failQueued].
func failedUnsent(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrNothing)
}

// unnamed reports whether a server answered with an error for which the ZooKeeper client has no name.
func unnamed(err error) bool {
	return OutcomeOf(err) == Unknown && !Retryable(err) && !errors.Is(err, sentinel.ErrUncertain) && !errors.Is(err, errUnanswered) &&
		!errors.Is(err, errUnasked)
}
