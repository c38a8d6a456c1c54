// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package clock reads CLOCK_MONOTONIC, which all processes of a machine share. The harness and its workers take the instants
// of a run's events from it.
package clock

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// monotonic returns CLOCK_MONOTONIC in nanoseconds. No step of the wall clock changes it. A time.Time would not do: its
// monotonic reading is relative to its process.
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

// Now returns the current instant.
func (s Scale) Now() history.Instant { return history.Instant(monotonic() - s.Began) }

// Sleep blocks the calling thread in the kernel for d, truncated to milliseconds. It does not use Go's timers, so that a
// thread that does nothing else can detect when it was not scheduled.
func Sleep(d time.Duration) {
	// An interrupted sleep only ends sooner.
	_, _ = unix.Poll(nil, int(d.Milliseconds()))
}

// Period is how often Gaps reads the clock.
const Period = 5 * time.Millisecond

// Gaps reports when this process was not scheduled, since the beginning of the run and until done is closed. Its thread only reads
// the clock, and reports a gap when it could not read it for longer than limit. It shares no lock with the rest of the process,
// except in report.
func (s Scale) Gaps(limit time.Duration, done <-chan struct{}, report func(from, until time.Duration)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for last := s.Now(); ; {
		Sleep(Period)
		now := s.Now()
		if time.Duration(now-last) > limit {
			report(time.Duration(last), time.Duration(now))
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}
