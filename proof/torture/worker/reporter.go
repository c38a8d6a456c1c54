// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// A reporter writes the events of a contender, one to a line, each before the call returns: events that were reported before a
// SIGKILL are not lost.
type reporter struct {
	name string
	time clock.Scale

	mu      sync.Mutex // guards what follows, and the order of lines
	out     io.Writer
	attempt int
}

// report reports an event that happens now.
func (r *reporter) report(e history.Event) { r.reportAt(r.time.Now(), e) }

func (r *reporter) reportAt(at history.Instant, e history.Event) {
	e.At, e.Contender = at, r.name
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // every event can be encoded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// If the harness no longer reads, it is about to kill this process.
	_, _ = r.out.Write(append(line, '\n'))
}

// next returns the number of the next attempt.
func (r *reporter) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt++
	return r.attempt - 1
}

// ClockPeriod is how often the clock thread reads the clock.
const ClockPeriod = 5 * time.Millisecond

// watchClock reports when this process was not scheduled, until done is closed. Its thread only reads the clock, and reports a
// pause when it could not read it for longer than gap. It shares no lock with the rest of the process, except for the report.
func (r *reporter) watchClock(gap time.Duration, done <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for last := r.time.Now(); ; {
		clock.Sleep(ClockPeriod)
		now := r.time.Now()
		if time.Duration(now-last) > gap {
			r.reportAt(last, history.Event{Kind: history.Paused})
			r.reportAt(now, history.Event{Kind: history.Woke})
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}
