// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// clocks are simultaneous readings of the wall clock and of the monotonic clock.
type clocks struct {
	mu    sync.Mutex // guards pairs
	pairs []bothClocks
}

// bothClocks is one reading of both clocks.
type bothClocks struct {
	wall    time.Time
	instant history.Instant
}

// read adds a reading.
func (c *clocks) read(scale clock.Scale) {
	pair := simultaneous(scale.Now, func() time.Time { return time.Now().Round(0) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pairs = append(c.pairs, pair)
}

// simultaneous reads both clocks. A process that is not scheduled between two readings would convert all that the servers
// log until the next one wrongly, so the closest of many readings counts.
func simultaneous(monotonic func() history.Instant, wall func() time.Time) bothClocks {
	var closest bothClocks
	shortest := time.Duration(math.MaxInt64)
	for range 50 {
		before := monotonic()
		now := wall()
		if took := time.Duration(monotonic() - before); took < shortest {
			shortest, closest = took, bothClocks{now, before + history.Instant(took/2)}
		}
	}
	return closest
}

// at converts a reading of the wall clock to an instant. It uses the nearest earlier reading of both clocks, because the
// machine's wall clock may be slewed during the run.
func (c *clocks) at(wall time.Time) history.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pairs) == 0 {
		return 0
	}
	n, _ := slices.BinarySearchFunc(c.pairs, wall, func(p bothClocks, wall time.Time) int {
		if p.wall.After(wall) {
			return 1
		}
		return -1
	})
	best := c.pairs[max(0, n-1)]
	return best.instant + history.Instant(wall.Sub(best.wall))
}
