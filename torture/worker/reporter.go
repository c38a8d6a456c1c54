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

// A voice is how a contender tells what it sees: an event a line, each written before the call returns. What was said
// before a kill -9 is heard.
type voice struct {
	name string
	time clock.Scale

	mu      sync.Mutex // guards what follows, and whose line it is
	out     io.Writer
	attempt int
}

// say tells that an event happens now.
func (v *voice) say(e history.Event) { v.sayAt(v.time.Now(), e) }

func (v *voice) sayAt(at history.Instant, e history.Event) {
	e.At, e.Contender = at, v.name
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // no event is such
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	// Nobody listens any more: then this process is about to be ended, too.
	_, _ = v.out.Write(append(line, '\n'))
}

// next numbers an attempt.
func (v *voice) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempt++
	return v.attempt - 1
}

// ClockPeriod is how often the clock thread reads the clock.
const ClockPeriod = 5 * time.Millisecond

// watchOwnClock tells when this process was not scheduled, until done is closed: when a thread that does nothing but look
// at the clock could not look for longer than gap. It knows nothing of what else the process does.
func (v *voice) watchOwnClock(gap time.Duration, done <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for last := v.time.Now(); ; {
		clock.Sleep(ClockPeriod)
		now := v.time.Now()
		if time.Duration(now-last) > gap {
			v.sayAt(last, history.Event{Kind: history.Paused})
			v.sayAt(now, history.Event{Kind: history.Woke})
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}
