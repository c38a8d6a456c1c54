// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
)

// A reporter writes the events of a contender, one to a line, each before the call returns: what was reported before a SIGKILL
// is not lost.
type reporter struct {
	name string
	time clock.Scale

	mu      sync.Mutex // guards what follows, and the order of lines
	out     io.Writer
	attempt int
}

// report reports an event that happens now.
func (v *reporter) report(e history.Event) { v.reportAt(v.time.Now(), e) }

func (v *reporter) reportAt(at history.Instant, e history.Event) {
	e.At, e.Contender = at, v.name
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // every event can be encoded
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	// If the harness has stopped reading, it is about to end this process, too.
	_, _ = v.out.Write(append(line, '\n'))
}

// next returns the number of a new attempt.
func (v *reporter) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempt++
	return v.attempt - 1
}

// ClockPeriod is how often the clock thread reads the clock.
const ClockPeriod = 5 * time.Millisecond

// watchClock reports when this process was not scheduled, until done is closed: its thread only reads the clock, and could not
// read it for longer than gap. It is independent of everything else in the process.
func (v *reporter) watchClock(gap time.Duration, done <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for last := v.time.Now(); ; {
		clock.Sleep(ClockPeriod)
		now := v.time.Now()
		if time.Duration(now-last) > gap {
			v.reportAt(last, history.Event{Kind: history.Paused})
			v.reportAt(now, history.Event{Kind: history.Woke})
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}
