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

// monotonic reads the machine's monotonic clock, which no step changes. All processes read the same clock; the monotonic reading
// inside a time.Time is relative to its process.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every machine has this clock
	}
	return ts.Nano()
}

// A Scale converts readings to instants of a run.
type Scale struct {
	Began int64 // CLOCK_MONOTONIC at the beginning of the run, in nanoseconds
}

// Start returns the scale of a run that begins now.
func Start() Scale { return Scale{monotonic()} }

// Now returns the present instant.
func (s Scale) Now() history.Instant { return history.Instant(monotonic() - s.Began) }

// Sleep waits in the kernel, not in Go's timers: a thread that does nothing else then shows when it was not scheduled.
// It truncates d to milliseconds.
func Sleep(d time.Duration) {
	// An interrupted sleep only makes the tick come sooner.
	_, _ = unix.Poll(nil, int(d.Milliseconds()))
}
