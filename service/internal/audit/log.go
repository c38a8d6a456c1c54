// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxPending bounds the events that wait for a file that blocks. One takes about 500 bytes, and 4 kB at most.
	maxPending = 4096
	// closeTimeout bounds how long Close waits for a file that blocks.
	closeTimeout = 2 * time.Second
)

var (
	// ErrPending is returned for an event that was not written in time. It is written when the file accepts it.
	ErrPending = errors.New("event is not written yet: the audit file blocks")
	// ErrLost is returned for an event that will not be written.
	ErrLost = errors.New("event is lost: the audit file blocks, or is closed")
)

// A Log writes events to a file, in order. A file can block, a pipe whose reader has stopped for instance: so one goroutine
// writes, and a request waits for it no longer than it chooses to. A Log is safe for concurrent use. A nil Log writes nothing.
type Log struct {
	w       io.Writer
	wake    chan struct{} // capacity 1
	stopped chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards what follows
	pending []*entry   // the oldest first; the goroutine removes one once it is written
	closed  bool
	lost    int // events that were not written, and will not be
}

// An entry is an event that is to be written.
type entry struct {
	row  []byte
	done chan error // capacity 1: receives the outcome
}

// New returns a Log that writes to w, with one Write for each event. Close it.
func New(w io.Writer) *Log {
	l := &Log{w: w, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go l.run()
	return l
}

// Write appends one event, and waits until it is written or ctx is done. ErrPending means that the event is written later,
// unless the process ends before; ErrLost that 4096 events wait already. After another error the event may be missing or
// incomplete.
func (l *Log) Write(ctx context.Context, e Event) error {
	n, err := l.post(e)
	if n == nil || err != nil {
		return err
	}
	select {
	case err = <-n.done:
	case <-ctx.Done():
		err = ErrPending
	}
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

// Post appends one event, and does not wait until it is written. An error means that it will not be written.
func (l *Log) Post(e Event) error {
	_, err := l.post(e)
	return err
}

func (l *Log) post(e Event) (*entry, error) {
	if l == nil {
		return nil, nil
	}
	row, err := e.encode()
	if err != nil {
		return nil, err
	}
	n := &entry{row, make(chan error, 1)}
	if !l.add(n) {
		return nil, fmt.Errorf("audit %s: %w", e.Action, ErrLost)
	}
	return n, nil
}

// Pending returns the number of events that wait to be written.
func (l *Log) Pending() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// Lost returns the number of events that were not written, and will not be.
func (l *Log) Lost() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Close writes what is pending. It waits 2 s for a file that blocks, and then returns an error; the goroutine ends when the
// file is closed.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.ring()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-l.stopped:
		return nil
	case <-timer.C:
		return fmt.Errorf("close audit: the file blocks, and lacks %d events", l.Pending())
	}
}

// add adds an entry. It reports false, and counts the event as lost, if there are too many.
func (l *Log) add(n *entry) bool {
	l.mu.Lock()
	accepted := !l.closed && len(l.pending) < maxPending
	if accepted {
		l.pending = append(l.pending, n)
	} else {
		l.lost++
	}
	l.mu.Unlock()
	if accepted {
		l.ring()
	}
	return accepted
}

func (l *Log) ring() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes what is pending, until the Log is closed.
func (l *Log) run() {
	defer close(l.stopped)
	for {
		n, closed := l.oldest()
		switch {
		case n != nil:
			_, err := l.w.Write(n.row)
			l.written(err)
			n.done <- err
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// oldest returns the oldest entry, nil if there is none, and whether the Log is closed.
func (l *Log) oldest() (*entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return nil, l.closed
	}
	return l.pending[0], l.closed
}

// written removes the oldest entry.
func (l *Log) written(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[0] = nil
	l.pending = l.pending[1:]
	if err != nil {
		l.lost++
	}
}
