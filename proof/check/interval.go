// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// never is later than every instant of a history.
const never = history.Instant(math.MaxInt64)

// An interval is a time in which a contender is not scheduled, its network is partitioned or slow, or something else lasts.
type interval struct {
	from, to history.Instant
	heard    bool // the servers go on hearing from the contender
}

// beginOrEnd begins an interval of the event's contender, or ends its last one.
func beginOrEnd(intervals map[string][]interval, e history.Event) {
	of := intervals[e.Contender]
	if e.Kind == history.Paused || e.Kind == history.Partitioned || e.Kind == history.Slowed {
		intervals[e.Contender] = append(of, interval{e.At, never, e.Kind == history.Slowed || e.Text == "to-client"})
	} else if last := len(of) - 1; last >= 0 {
		of[last].to = min(of[last].to, e.At)
	}
}
