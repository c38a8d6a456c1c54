// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatal marks an error that ends a poll immediately.
type fatal struct{ error }

func (f *fatal) Unwrap() error { return f.error }

// poll calls ready until it returns nil or a fatal error, or ctx ends; the error then contains
// both the reason why the wait ended and the last error of ready.
func poll(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		var end *fatal
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
