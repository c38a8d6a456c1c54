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

// ErrUncertain is the error of a request whose outcome is unknown.
var ErrUncertain = errors.New("outcome unknown")
