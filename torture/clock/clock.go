// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package clock reads CLOCK_MONOTONIC, which the processes of a machine share: the harness and its workers date the events of
// a run by it.
package clock

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// monotonic reads the machine's clock that no step changes. All processes read the same; the reading inside a time.Time is
// the process's own.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no machine without this clock
	}
	return ts.Nano()
}

// A Scale turns readings into instants of a run.
type Scale struct {
	Began int64 // CLOCK_MONOTONIC at the beginning of the run, in nanoseconds
}

// Start returns the scale of a run that begins now.
func Start() Scale { return Scale{monotonic()} }

// Now returns the present instant.
func (s Scale) Now() history.Instant { return history.Instant(monotonic() - s.Began) }

// Sleep waits in the kernel, not in Go's timers: a thread that does nothing else then shows when it was not scheduled.
// Fractions of a millisecond are cut off.
func Sleep(d time.Duration) {
	// An early end is a tick that comes sooner.
	_, _ = unix.Poll(nil, int(d.Milliseconds()))
}
