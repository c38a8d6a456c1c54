// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// never is later than every instant of a history.
const never = history.Instant(math.MaxInt64)

// An interval is a time in which a contender is not scheduled, or its network is partitioned.
type interval struct{ from, to history.Instant }

// beginOrEnd appends an interval if the event begins one, and ends the last one otherwise.
func beginOrEnd(intervals []interval, e history.Event) []interval {
	if e.Kind == history.Paused || e.Kind == history.Partitioned {
		return append(intervals, interval{e.At, never})
	}
	if last := len(intervals) - 1; last >= 0 {
		intervals[last].to = min(intervals[last].to, e.At)
	}
	return intervals
}
