// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"
)

// A timeline tells a person what happened when: in milliseconds from an instant
// that is not known at first, so that what happened before it is told when it
// comes. say and zero may be called from any goroutine, until close.
type timeline struct {
	entries chan entry
	stopped chan struct{} // closed when run has returned
	err     error         // the first of out's; to be read after stopped
}

// An entry is a line of a timeline.
type entry struct {
	at   time.Time
	who  string
	what string
	zero bool // times count from it
}

// line formats the entry, with times counted from zero.
func (e entry) line(zero time.Time) string {
	at := "0"
	if ms := e.at.Sub(zero).Round(time.Millisecond).Milliseconds(); ms != 0 {
		at = fmt.Sprintf("%+d", ms)
	}
	return timelineLine(at, e.who, e.what)
}

func timelineLine(at, who, what string) string { return fmt.Sprintf("%8s  %-3s  %s\n", at, who, what) }

// newTimeline starts a timeline, which is to be closed.
func newTimeline(out io.Writer) *timeline {
	t := &timeline{entries: make(chan entry, 64), stopped: make(chan struct{})}
	go t.run(out)
	return t
}

// say tells what has just happened.
func (t *timeline) say(who, format string, args ...any) {
	t.entries <- entry{at: time.Now(), who: who, what: fmt.Sprintf(format, args...)}
}

// zero tells what has just happened, and counts time from it.
func (t *timeline) zero(who, format string, args ...any) {
	t.entries <- entry{at: time.Now(), who: who, what: fmt.Sprintf(format, args...), zero: true}
}

// close ends the timeline, and returns the first error of its writer. Where time
// was never counted from anything, it counts from the last that happened.
func (t *timeline) close() error {
	close(t.entries)
	<-t.stopped
	return t.err
}

// run is the only writer: nobody holds a lock while a terminal is slow.
func (t *timeline) run(out io.Writer) {
	defer close(t.stopped)
	write := func(line string) {
		if t.err == nil {
			_, t.err = io.WriteString(out, line)
		}
	}
	var early []entry
	var zero time.Time
	begin := func(at time.Time) {
		zero = at
		write(timelineLine("ms", "who", "what"))
		for _, e := range early {
			write(e.line(zero))
		}
		early = nil
	}
	for e := range t.entries {
		switch {
		case !zero.IsZero():
			write(e.line(zero))
		case e.zero:
			early = append(early, e)
			begin(e.at)
		default:
			early = append(early, e)
		}
	}
	if len(early) > 0 {
		begin(early[len(early)-1].at)
	}
}
