// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
)

// checkHealth calls Health once. A check that does not answer in time, or not even in the same time after its context is done, has failed.
func (o *Options) checkHealth(ctx context.Context) error {
	checkCtx, cancel := context.WithTimeout(ctx, election.DefaultHealthTimeout)
	defer cancel()
	results := start(func() error { return o.Health(checkCtx) })
	var err error
	select {
	case err = <-results:
	case <-checkCtx.Done():
		err = fmt.Errorf("no answer in time: %w", checkCtx.Err())
		select {
		case <-results: //nolint:errcheck // the answer has come too late
		case <-time.After(election.DefaultHealthTimeout):
		}
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w: %w", election.ErrUnhealthy, err)
}
