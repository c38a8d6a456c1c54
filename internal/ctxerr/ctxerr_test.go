// SPDX-License-Identifier: Apache-2.0

package ctxerr

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorOfEndedContextIncludesItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	require.ErrorIs(t, Ended(ctx), context.Canceled)
	require.ErrorIs(t, Ended(ctx), io.ErrClosedPipe)

	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(nil)
	require.Equal(t, context.Canceled, Ended(ctx), "a cause that equals the error is not repeated")
}
