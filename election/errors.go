// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
)

// ErrNoLeader is returned by Leader when there is no candidate.
var ErrNoLeader = errors.New("no leader")

// ErrOverrun is returned by Run when the work did not return within the stop timeout
// after its context was done. The work may still be running: the process should exit.
var ErrOverrun = errors.New("work did not stop in time")
