// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/go-zookeeper/zk"
)

// An Outcome is what an error says about the request that it answers.
type Outcome int

// The outcomes.
const (
	Done    Outcome = iota // the server carried it out
	Refused                // the server said no: nothing was changed
	Unsent                 // it never left this process
	Unknown                // it may or may not have been carried out
)

// stated are the answers that only a server can give. Everything that is not
// listed here is unknown: a broken connection shows itself in many shapes, raw
// errors of the network among them, and none of them says what happened.
var stated = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth,
	zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrSessionExpired,
	zk.ErrAuthFailed, zk.ErrBadArguments,
}

// NotSent returns an error that says of a request that it was never sent, because of err.
func NotSent(err error) error { return unsentErr{err} }

// unsentErr wraps the reason why a request was never sent.
type unsentErr struct{ error }

func (e unsentErr) Unwrap() error { return e.error }

// OutcomeOf returns what err says about the request that it answers.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrUncertain):
		return Unknown // whatever else it says
	}
	var u unsentErr
	if errors.As(err, &u) || isGivenBack(err) || errors.Is(err, zk.ErrInvalidPath) || errors.Is(err, zk.ErrShortBuffer) {
		return Unsent
	}
	for _, s := range stated {
		if errors.Is(err, s) {
			return Refused
		}
	}
	return Unknown
}

// BrokenOff reports whether a request failed with its connection, so that sending
// it again on the next one may help. Its outcome is unknown.
func BrokenOff(err error) bool {
	var u unsentErr
	// The error of a context that has timed out passes for one of the network.
	if errors.As(err, &u) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) ||
		errors.As(err, &network)
}

// isGivenBack reports whether the ZooKeeper client gave a request back before it was
// sent: by itself, or because of [dialer.giveBack].
func isGivenBack(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrNothing)
}

// Nameless reports whether a server has answered with an error that the ZooKeeper client has
// no name for: its outcome is unknown, and sending the request again would get the same.
func Nameless(err error) bool { return OutcomeOf(err) == Unknown && !BrokenOff(err) }
