// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestContextCarriesTokenAndHistory(t *testing.T) {
	ctx := t.Context()
	require.Zero(t, fencing.TokenFromContext(ctx))
	require.Empty(t, fencing.HistoryFromContext(ctx))
	ctx = fencing.WithHistory(fencing.WithToken(ctx, 7), "first")
	require.Equal(t, fencing.Token(7), fencing.TokenFromContext(ctx))
	require.Equal(t, "first", fencing.HistoryFromContext(ctx))
	ctx = fencing.WithToken(ctx, 9)
	require.Equal(t, fencing.Token(9), fencing.TokenFromContext(ctx))
	require.Equal(t, "first", fencing.HistoryFromContext(ctx))
}
