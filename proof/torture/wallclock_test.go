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

func TestWallClockReadingsAreConvertedToInstants(t *testing.T) {
	s := &run{time: clock.Start()}
	s.clocks.read(s.time)
	before := s.time.Now()
	wall := time.Now().Round(0)
	after := s.time.Now()
	require.WithinRange(t, time.Unix(0, int64(s.clocks.at(wall))), time.Unix(0, int64(before)-1e6), time.Unix(0, int64(after)+1e6))
}

func TestReadingOfAStalledProcessIsNotUsed(t *testing.T) {
	now, readings := history.Instant(0), 0
	pair := simultaneous(func() history.Instant { return now }, func() time.Time {
		wall := time.Unix(0, int64(now))
		now += history.Instant(time.Microsecond)
		if readings++; readings%7 != 0 {
			now += history.Instant(3 * time.Millisecond)
		}
		return wall
	})
	require.WithinDuration(t, pair.wall, time.Unix(0, int64(pair.instant)), time.Microsecond)
}
