// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	wake    chan struct{} // capacity 1
	stopped chan struct{} // closed when the goroutine has ended
	torn    bool          // the file ends in an incomplete row; only the goroutine uses it

	mu      sync.Mutex     // guards what follows
	file    io.WriteCloser // only the goroutine writes to it
	pending []*entry       // the oldest first; the goroutine removes one once it is written
	closed  bool
	lost    int // events that were not written, and will not be
}

// An entry is an event that is to be written, or a file for those that follow.
type entry struct {
	row  []byte
	file io.WriteCloser // nil for an event
	done chan error     // capacity 1: receives the outcome
}

// Open opens a file for New or Replace, and creates it if it is missing. It ends an incomplete row that a file on a disk has from
// before, if it can: events are written also if that fails.
func Open(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && torn(name, info.Size()) {
		_, _ = file.Write([]byte("\n"))
	}
	return file, nil
}

// torn reports whether a regular file of this size ends in an incomplete row.
func torn(name string, size int64) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	last := make([]byte, 1)
	_, err = file.ReadAt(last, size-1) // fails for an empty file
	return err == nil && last[0] != '\n'
}

// New returns a Log that writes to a file, with one Write for each event. Close it: that closes the file.
func New(file io.WriteCloser) *Log {
	l := &Log{file: file, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go l.run()
	return l
}

// Replace closes the file once all events before are written, and writes those that follow to another one. It returns the
// error of closing the old file, or the error of ctx if a file that blocks delays the replacement until later.
func (l *Log) Replace(ctx context.Context, file io.WriteCloser) error {
	n := &entry{file: file, done: make(chan error, 1)}
	if !l.add(n) {
		return errors.Join(errors.New("the audit is closed"), file.Close())
	}
	select {
	case err := <-n.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
	n := &entry{row: row, done: make(chan error, 1)}
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

// Close writes what is pending, and closes the file. It waits 2 s for one that blocks, and then returns an error; the goroutine
// ends when the file has been closed.
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
	var err error
	select {
	case <-l.stopped:
	case <-timer.C:
		err = fmt.Errorf("close audit: the file blocks, and lacks %d events", l.Pending())
	}
	l.mu.Lock()
	file := l.file
	l.mu.Unlock()
	return errors.Join(err, file.Close())
}

// add adds an entry. It reports false if the Log is closed, and for an event if there are too many, which counts as lost.
func (l *Log) add(n *entry) bool {
	l.mu.Lock()
	accepted := !l.closed && (n.file != nil || len(l.pending) < maxPending)
	if accepted {
		l.pending = append(l.pending, n)
	} else if n.file == nil {
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
			n.done <- l.carryOut(n)
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// carryOut writes an event, or begins another file, and removes the entry.
func (l *Log) carryOut(n *entry) error {
	l.mu.Lock()
	file := l.file
	l.mu.Unlock()
	var err error
	if n.file == nil {
		err = l.append(file, n.row)
	} else {
		err = file.Close()
		l.torn = false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[0] = nil
	l.pending = l.pending[1:]
	switch {
	case n.file != nil:
		l.file = n.file
	case err != nil:
		l.lost++
	}
	return err
}

// append writes a row. A full disk can have cut the one before: the fragment becomes a separate row, and spoils no event.
func (l *Log) append(file io.Writer, row []byte) error {
	if l.torn {
		row = slices.Concat([]byte("\n"), row)
	}
	n, err := file.Write(row)
	if n > 0 {
		l.torn = row[n-1] != '\n'
	}
	return err
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
