// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
)

// checkHealth calls Health once, and fail as soon as the check has failed, or has not answered in time. Then it waits for the check once more, for the same
// time. A check that the end of ctx interrupts has not failed.
func (o *Options) checkHealth(ctx context.Context, fail func(error)) {
	checkCtx, cancel := context.WithTimeout(ctx, election.DefaultHealthTimeout)
	defer cancel()
	results := start(func() error { return o.Health(checkCtx) })
	var err error
	select {
	case err = <-results:
		results = nil
	case <-checkCtx.Done():
		err = fmt.Errorf("no answer in time: %w", checkCtx.Err())
	}
	if err != nil && ctx.Err() == nil {
		fail(fmt.Errorf("%w: %w", election.ErrUnhealthy, err))
	}
	if results == nil {
		return
	}
	select {
	case <-results: //nolint:errcheck // the answer has come too late
	case <-time.After(election.DefaultHealthTimeout):
	}
}
