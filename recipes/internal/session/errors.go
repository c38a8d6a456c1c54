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
	ErrDeleted        = errors.New("node deleted or overwritten by somebody else")
	ErrClosed         = errors.New("client closed")
)

// ErrUncertain is the error of a request whose outcome is unknown.
var ErrUncertain = errors.New("outcome unknown")

// ErrExpired is the ErrSessionExpired of a session that a server has said to be
// expired: its nodes are gone.
var ErrExpired = fmt.Errorf("%w, as a server says", ErrSessionExpired)

// ErrGivenUp is the ErrSessionExpired of a session that no server has served for
// so long that it was given up: its nodes may be there still.
var ErrGivenUp = fmt.Errorf("%w, or as good as: no server has served it for too long", ErrSessionExpired)
