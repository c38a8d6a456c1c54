// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestCheckAgreesWithGate(t *testing.T) {
	tokens := []fencing.Token{math.MinInt64, -1, 0, 1, 7, 1 << 53, 1<<53 + 1, math.MaxInt64}
	for _, newest := range tokens {
		if newest < 0 {
			require.ErrorContains(t, fencing.Check(7, newest), "the newest token is")
			require.NotErrorIs(t, fencing.Check(7, newest), fencing.ErrInvalid)
			continue
		}
		for _, token := range tokens {
			var gate fencing.Gate
			require.NoError(t, gate.Reset(newest))
			want, err := gate.Admit(token), fencing.Check(token, newest)
			var stale, wantStale *fencing.StaleError
			switch {
			case want == nil:
				require.NoError(t, err)
			case !token.Valid():
				require.ErrorIs(t, err, fencing.ErrInvalid)
			default:
				require.ErrorAs(t, want, &wantStale)
				require.ErrorAs(t, err, &stale)
				require.Equal(t, wantStale, stale)
			}
		}
	}
}

func TestCheckInHistoryReturnsTheHistoryToStore(t *testing.T) {
	const newest = fencing.Token(7)
	for _, c := range []struct {
		history, stored, next string
		other                 bool
	}{
		{"", "", "", false},
		{"first", "", "first", false},
		{"", "first", "first", false},
		{"first", "first", "first", false},
		{"second", "first", "", true},
	} {
		for _, token := range []fencing.Token{6, 7, 8} {
			next, err := fencing.CheckInHistory(token, newest, c.history, c.stored)
			switch {
			case c.other:
				var other *fencing.HistoryError
				require.ErrorAs(t, err, &other)
				require.Equal(t, fencing.HistoryError{Token: token, Given: c.history, Stored: c.stored}, *other)
			case token < newest:
				require.ErrorIs(t, err, fencing.ErrStale)
				require.Empty(t, next)
			default:
				require.NoError(t, err)
				require.Equal(t, c.next, next)
			}
		}
		_, err := fencing.CheckInHistory(0, newest, c.history, c.stored)
		require.ErrorIs(t, err, fencing.ErrInvalid)
	}
	_, err := fencing.CheckInHistory(8, newest, "not a history", "")
	require.ErrorContains(t, err, `"not a history"`)
}
