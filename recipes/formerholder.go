// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A FormerHolder is a holder that did not release its claim: its process crashed, or it lost the
// claim, or perhaps its release was not confirmed in time.
type FormerHolder struct {
	Token fencing.Token
	Owner string // label
	Host  string
	PID   int
	Since time.Time // when it took the claim, by the clock of its host
}

// An UnreleasedError reports that a claim was not taken over from a holder that did not release it:
// the context ended before the lock-delay was over, or the fence function failed.
type UnreleasedError struct {
	Former FormerHolder
	Err    error // the cause
}

// Error names the former holder.
func (e *UnreleasedError) Error() string {
	return fmt.Sprintf("holder %q with token %d did not release: %v", e.Former.Owner, e.Former.Token, e.Err)
}

// Unwrap returns the cause.
func (e *UnreleasedError) Unwrap() error { return e.Err }
