// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// monotonic is the machine's clock that no step touches. All processes read the same; the reading inside a time.Time is
// one of the process's own.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no machine without this clock
	}
	return ts.Nano()
}

// A timescale turns clocks into instants of the run.
type timescale struct{ began int64 }

func (t timescale) now() history.Instant { return history.Instant(monotonic() - t.began) }

// clocks are readings of the wall clock and of the monotonic one at the same time.
type clocks struct {
	mu    sync.Mutex // guards pairs
	pairs []bothClocks
}

type bothClocks struct {
	wall    time.Time
	instant history.Instant
}

func (c *clocks) read(scale timescale) {
	before := scale.now()
	wall := time.Now().Round(0)
	between := before + (scale.now()-before)/2
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pairs = append(c.pairs, bothClocks{wall, between})
}

// at is the instant of a reading of the wall clock, by the readings of both clocks that were taken during the run: the machine's
// own may be slewed meanwhile.
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

// sleep waits in the kernel, not in Go's timers: a thread that does nothing else then shows when it was not scheduled.
func sleep(d time.Duration) {
	// An early end is a tick that comes sooner.
	_, _ = unix.Poll(nil, int(d.Milliseconds()))
}
