// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoLeader is returned by Leader when there is no candidate.
var ErrNoLeader = errors.New("no leader")

// ErrOverrun is returned by Run when the work did not return within the stop timeout
// after its context was done. The work may still be running: the process should exit.
var ErrOverrun = errors.New("work did not stop in time")

// ended returns the error of a ctx that is done, joined with its cause if that differs.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
