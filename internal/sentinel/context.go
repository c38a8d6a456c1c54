// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"errors"
	"fmt"
)

// ErrNilContext is the error of a call whose context is nil.
var ErrNilContext = errors.New("context is nil")

// WithCtx adds the error of ctx and its cause to err, which is about to be returned
// to the caller, if ctx is done and err does not wrap them. Errors inside the package
// leave the cause out: it can be any error, even an earlier answer of a server.
func WithCtx(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}
