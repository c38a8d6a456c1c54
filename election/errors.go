// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoLeader is returned by Leader when nobody is a candidate.
var ErrNoLeader = errors.New("no leader")

// ErrOverrun is returned by Run when the work did not stop in time after its
// term had ended. The work may still be running: the process should treat itself
// as lost, and exit.
var ErrOverrun = errors.New("work did not stop in time")

// ended is why ctx is done: its error, with its cause where that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
