// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"encoding/json"
	"io"
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

// watchClock reports when this process was not scheduled, until done is closed.
func (r *reporter) watchClock(gap time.Duration, done <-chan struct{}) {
	r.time.Gaps(gap, done, func(from, until time.Duration) {
		r.reportAt(history.Instant(from), history.Event{Kind: history.Paused})
		r.reportAt(history.Instant(until), history.Event{Kind: history.Woke})
	})
}
