// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"slices"
	"time"
)

// A lease is overdue once it has been held for factor times the median of its lock's last holds, and for leastOverdue. Fewer
// holds than leastHolds show no habit.
const (
	factor       = 10
	leastHolds   = 5
	lastHolds    = 15
	leastOverdue = time.Minute
)

// usual are the last holds of one lock.
type usual struct {
	holds  [lastHolds]time.Duration
	n      int           // that were added
	median time.Duration // of those that are kept
}

// add adds a hold that has ended.
func (u *usual) add(held time.Duration) {
	u.holds[u.n%lastHolds] = held
	u.n++
	kept := slices.Clone(u.holds[:min(u.n, lastHolds)])
	slices.Sort(kept)
	u.median = kept[len(kept)/2]
}

// exceededBy reports whether a hold is far longer than usual.
func (u *usual) exceededBy(held time.Duration) bool {
	return u.n >= leastHolds && held > max(factor*u.median, leastOverdue)
}
