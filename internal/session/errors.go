// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// ErrExpired is the ErrSessionExpired of a session that a server has reported as
// expired: its nodes are gone.
var ErrExpired = fmt.Errorf("%w (reported by the server)", sentinel.ErrSessionExpired)

// ErrReplaced is the ErrSessionExpired of a session in whose place a server has opened another one, as ClickHouse Keeper does at
// each reconnection: its nodes exist until its timeout.
var ErrReplaced = fmt.Errorf("%w (the server has opened another one in its place)", sentinel.ErrSessionExpired)

// ErrAbandoned is the ErrSessionExpired of a session that the client abandoned because no
// server had answered it for too long: its nodes may still exist.
var ErrAbandoned = fmt.Errorf("%w (presumed: no server has answered its requests for too long)", sentinel.ErrSessionExpired)

// ErrLargeReply is the error of a request whose reply has more than Config.MaxReply bytes.
var ErrLargeReply = zk.ErrReconfigDisabled // which no server returns to this library

// A LossError is the error of a check that found a node lost.
type LossError struct {
	Cause error // why what was granted on the node has ended
	Err   error // the answer to the check
}

// Error returns the cause and the answer.
func (e *LossError) Error() string {
	if errors.Is(e.Cause, sentinel.ErrDeleted) {
		return fmt.Sprintf("%v: %v", e.Cause, e.Err)
	}
	return fmt.Sprintf("%v: %v: %v", sentinel.ErrDeleted, e.Cause, e.Err)
}

// Unwrap returns ErrDeleted, the cause and the answer.
func (e *LossError) Unwrap() []error { return []error{sentinel.ErrDeleted, e.Cause, e.Err} }
