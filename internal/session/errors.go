// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
)

// Reasons why a session, or what was granted in it, has ended. Package recipes returns them
// to its callers, and documents them.
var (
	ErrSessionExpired = errors.New("session expired")
	ErrDeadline       = errors.New("deadline passed without proof that the session lives")
	ErrDeleted        = errors.New("node deleted or overwritten by another client")
	ErrClosed         = errors.New("client closed")
)

// ErrUncertain is the error of a request whose outcome is unknown.
var ErrUncertain = errors.New("outcome unknown")

// ErrExpired is the ErrSessionExpired of a session that a server has reported as
// expired: its nodes are gone.
var ErrExpired = fmt.Errorf("%w (reported by the server)", ErrSessionExpired)

// ErrReplaced is the ErrSessionExpired of a session in whose place a server has opened another one, as ClickHouse Keeper does at
// each reconnection: its nodes exist until its timeout.
var ErrReplaced = fmt.Errorf("%w (the server has opened another one in its place)", ErrSessionExpired)

// ErrAbandoned is the ErrSessionExpired of a session that the client abandoned because no
// server had answered it for too long: its nodes may still exist.
var ErrAbandoned = fmt.Errorf("%w (presumed: no server has answered its requests for too long)", ErrSessionExpired)
