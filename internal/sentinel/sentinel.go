// SPDX-License-Identifier: Apache-2.0

// Package sentinel has the errors that the engine and the library share. Package recipes documents those that it returns.
package sentinel

import "errors"

// ErrLost is the error of a claim that is no longer held. It comes with a cause.
var ErrLost = errors.New("claim lost")

// Causes: what ended a claim or a session.
var (
	ErrSessionExpired = errors.New("session expired")
	ErrDeadline       = errors.New("deadline passed without proof that the session lives")
	ErrDeleted        = errors.New("node deleted or overwritten by another client")
	ErrRevoked        = errors.New("revoked")
	ErrReleased       = errors.New("released")
	ErrClosed         = errors.New("client closed")
)

// ErrQueue is the error of a path that is a queue, where another kind of node is needed.
var ErrQueue = errors.New("the node is the queue of a lock or an election: use a separate path")

// ErrYielded is the cause that Trace.Rejoined gets when a contender that could have been granted
// the claim has joined again at the end of the queue.
var ErrYielded = errors.New("yielded to another contender")

// ErrUncertain is the error of a request whose outcome is unknown.
var ErrUncertain = errors.New("outcome unknown")
