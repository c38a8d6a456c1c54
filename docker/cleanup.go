// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"time"
)

// cleanup removes what was created, the newest first. Its zero value is ready to use.
type cleanup struct {
	steps []func(context.Context) error
}

func (c *cleanup) add(step func(context.Context) error) { c.steps = append(c.steps, step) }

// run executes every step, even if others fail, with its own bound: it often runs because the
// caller's context has ended.
func (c *cleanup) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for i := len(c.steps) - 1; i >= 0; i-- {
		errs = append(errs, c.steps[i](ctx))
	}
	c.steps = nil
	return errors.Join(errs...)
}
