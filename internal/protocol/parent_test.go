// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHintIsReadAsItWasWritten(t *testing.T) {
	for _, hint := range []int64{0, 1, 35, 36, 1 << 40, math.MaxInt64} {
		data := ParentData(hint)
		require.Equal(t, hint, ParseHint(data), "%s", data)
		require.True(t, IsMarked(data))
	}
	require.False(t, IsMarked(nil))
	require.False(t, IsMarked([]byte("another program's")))
}

func TestDataOfAnotherFormatHaveNoHint(t *testing.T) {
	for _, data := range []string{
		"", "lockkeeper/1", "lockkeeper/1 ", "lockkeeper/1 0", "lockkeeper/1 -1", "lockkeeper/1 +1", "lockkeeper/1 01", "lockkeeper/1 A",
		"lockkeeper/1 1 ", "lockkeeper/1  1", "lockkeeper/11 1", "lockkeeper/2 1", "1", "lockkeeper/1 zzzzzzzzzzzzzzzzz",
	} {
		require.Zero(t, ParseHint([]byte(data)), "%q", data)
	}
}

func TestLastNumberIsThatOfTheChildThatWasCreatedLast(t *testing.T) {
	for _, created := range []int64{0, 1, 5, 1 << 30, 1<<30 + 7, 1<<31 - 1} {
		for children := int64(0); children <= min(created, 3); children++ {
			deleted := created - children
			require.EqualValues(t, created-1, LastNumber(int32(created+deleted), int32(children)), "%d created, %d left", created, children) //nolint:gosec // as a server's
		}
	}
}
