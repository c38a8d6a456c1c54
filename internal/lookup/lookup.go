// SPDX-License-Identifier: Apache-2.0

// Package lookup reads something shortly before the deadline of a call that waits, so that the error of a call that times out can
// name it without a request after the deadline: the holder of a lock, the leader of an election.
package lookup

import (
	"context"
	"sync"
	"time"
)

// maxLead bounds how long before the deadline the source is read.
const maxLead = time.Second

// A Source is what the lookups of one lock or election read. They share a read: thousands of callers may have the same deadline,
// and each read lists the queue.
type Source[T any] struct {
	read func(ctx context.Context) (T, error)

	mu      sync.Mutex // guards reading
	reading *shared[T] // the read in progress
}

// NewSource returns a source with that read.
func NewSource[T any](read func(ctx context.Context) (T, error)) *Source[T] {
	return &Source[T]{read: read}
}

// shared is a read in progress.
type shared[T any] struct {
	done      chan struct{} // closed when the rest is set
	value     T
	found     bool
	abandoned bool // its lookup was, which says nothing about the source
}

// A Lookup is one read before one deadline. Most calls end long before theirs, so a lookup that never runs must cost next to
// nothing: it creates its own context when it runs.
type Lookup[T any] struct {
	timer   *time.Timer
	running sync.WaitGroup // counts what the timer starts, until it has ended

	mu     sync.Mutex         // guards what follows
	over   bool               // the result is no longer needed
	cancel context.CancelFunc // ends the read in progress

	value T // set before running is done, as is found
	found bool
}

// Before schedules a lookup before the deadline of ctx. It returns nil if ctx has none.
func (s *Source[T]) Before(ctx context.Context) *Lookup[T] {
	if ctx == nil {
		return nil
	}
	deadline, ok := ctx.Deadline()
	left := time.Until(deadline)
	if !ok || left <= 0 {
		return nil
	}
	l := &Lookup[T]{}
	l.running.Add(1)
	l.timer = time.AfterFunc(left-min(left/4, maxLead), func() {
		defer l.running.Done()
		l.run(ctx, s)
	})
	return l
}

// run reads the source, unless the lookup was abandoned.
func (l *Lookup[T]) run(ctx context.Context, s *Source[T]) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	cancel := l.cancel
	l.mu.Unlock()
	defer cancel()
	l.value, l.found = s.get(ctx)
}

// End abandons the lookup unless it has its result. It returns after the lookup's goroutine has returned. A nil Lookup has found
// nothing.
func (l *Lookup[T]) End() (value T, found bool) {
	if l == nil || l.timer.Stop() {
		return value, false
	}
	l.mu.Lock()
	l.over = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	l.running.Wait()
	return l.value, l.found
}

// get returns the value, from a read in progress or from its own read. found is false if ctx ended first or the read failed: the
// value is only a detail of an error that has another cause.
func (s *Source[T]) get(ctx context.Context) (value T, found bool) {
	for ctx.Err() == nil {
		s.mu.Lock()
		r := s.reading
		first := r == nil
		if first {
			r = &shared[T]{done: make(chan struct{})}
			s.reading = r
		}
		s.mu.Unlock()
		if first {
			var err error
			r.value, err = s.read(ctx)
			r.found, r.abandoned = err == nil, ctx.Err() != nil
			s.mu.Lock()
			s.reading = nil
			s.mu.Unlock()
			close(r.done)
			return r.value, r.found
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return value, false
		}
		if r.found || !r.abandoned {
			return r.value, r.found // thousands that each read again what cannot be read would wake each other each time
		}
	}
	return value, false
}
