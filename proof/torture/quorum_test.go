// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

func TestTimesWithoutAnAnswerDoNotOverlap(t *testing.T) {
	scale := clock.Start()
	const s = history.Instant(time.Second)
	q := &quorum{scale: scale, limit: time.Minute, began: 1, silent: []silence{{5 * s, 6 * s}, {1 * s, 4 * s}, {2 * s, 3 * s}, {4 * s, 5 * s}, {8 * s, 9 * s}}}
	require.Equal(t, []history.Event{
		{At: 1, Kind: history.Quorum},
		{At: 1 * s, Kind: history.NoQuorum},
		{At: 6 * s, Kind: history.Quorum},
		{At: 8 * s, Kind: history.NoQuorum},
		{At: 9 * s, Kind: history.Quorum},
	}, q.observed())

	q.answered()
	require.Len(t, q.observed(), 5)
	q.last -= 2 * 60 * s
	require.Len(t, q.observed(), 7, "there is none now")
	q.answered()
	require.Len(t, q.observed(), 7, "there was none for a while")
}
