// SPDX-License-Identifier: Apache-2.0

package background

import (
	"math"
	"sync"
)

// Unbounded is the bound of functions that must not be dropped.
const Unbounded = math.MaxInt

// A Mailbox runs functions one at a time, in the order in which they were posted, on its
// own goroutine: they never delay the caller of Post. It is safe for concurrent use.
type Mailbox struct {
	stopped chan struct{} // closed when run has returned
	wake    chan struct{} // signals that queue or closed has changed

	mu     sync.Mutex // guards what follows
	queue  []func()
	closed bool
}

// NewMailbox returns a Mailbox whose goroutine runs until Close.
func NewMailbox() *Mailbox {
	m := &Mailbox{stopped: make(chan struct{}), wake: make(chan struct{}, 1)}
	go m.run()
	return m
}

// Post reports whether f will be run. It is not run after Close, nor while bound other
// functions wait.
func (m *Mailbox) Post(f func(), bound int) bool {
	m.mu.Lock()
	taken := !m.closed && len(m.queue) < bound
	if taken {
		m.queue = append(m.queue, f)
	}
	m.mu.Unlock()
	if taken {
		m.signal()
	}
	return taken
}

// Close ends the goroutine after it has run the functions in the queue. It does not wait.
func (m *Mailbox) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.signal()
}

// Stopped returns a channel that is closed when the goroutine has ended.
func (m *Mailbox) Stopped() <-chan struct{} { return m.stopped }

func (m *Mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Mailbox) run() {
	defer close(m.stopped)
	for {
		m.mu.Lock()
		closed := m.closed
		var f func()
		if len(m.queue) > 0 {
			f = m.queue[0]
			m.queue[0] = nil
			m.queue = m.queue[1:]
		}
		m.mu.Unlock()
		switch {
		case f != nil:
			f()
		case closed:
			return
		default:
			<-m.wake
		}
	}
}
