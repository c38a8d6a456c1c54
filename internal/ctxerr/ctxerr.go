// SPDX-License-Identifier: Apache-2.0

// Package ctxerr describes the end of a context.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Ended returns the error of a ctx that is done, followed by its cause if that differs.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
