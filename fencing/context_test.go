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
	require.Empty(t, fencing.HistoryFromContext(ctx), "it is the history of token 7")
	ctx = fencing.WithHistory(ctx, "second")
	require.Equal(t, "second", fencing.HistoryFromContext(ctx))
	require.Empty(t, fencing.HistoryFromContext(fencing.WithToken(ctx, 0)))
	ctx = fencing.WithToken(fencing.WithHistory(t.Context(), "first"), 7)
	require.Equal(t, "first", fencing.HistoryFromContext(ctx), "a context without a token keeps it for a later one")
	ctx = fencing.WithHistory(fencing.WithToken(t.Context(), 7), "own")
	require.Empty(t, fencing.HistoryFromContext(fencing.WithToken(ctx, 9)), "it was added beside token 7")
}
