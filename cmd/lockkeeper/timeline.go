// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"
)

// A timeline prints events with their times, in milliseconds from an instant that is not
// known at first: events before that instant are printed when it comes. say and zero may
// be called from any goroutine, until close.
type timeline struct {
	entries chan entry
	stopped chan struct{} // closed when run has returned
	err     error         // the first error of the writer; read it after stopped is closed
}

// An entry is one line of a timeline.
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

// newTimeline starts a timeline. The caller closes it.
func newTimeline(out io.Writer) *timeline {
	t := &timeline{entries: make(chan entry, 64), stopped: make(chan struct{})}
	go t.run(out)
	return t
}

// say adds an event at the current time.
func (t *timeline) say(who, format string, args ...any) {
	t.entries <- entry{at: time.Now(), who: who, what: fmt.Sprintf(format, args...)}
}

// zero adds an event at the current time, from which times count.
func (t *timeline) zero(who, format string, args ...any) {
	t.entries <- entry{at: time.Now(), who: who, what: fmt.Sprintf(format, args...), zero: true}
}

// close ends the timeline, and returns the first error of its writer. If zero was not
// called, times count from the last event.
func (t *timeline) close() error {
	close(t.entries)
	<-t.stopped
	return t.err
}

// run prints the entries. It is the only goroutine that writes, so that no caller holds a
// lock while a terminal is slow.
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
