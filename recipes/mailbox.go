// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"math"
	"sync"
)

// unbounded is the bound of what must not be dropped.
const unbounded = math.MaxInt

// A mailbox runs functions one at a time, in the order in which they were posted, on a
// goroutine of its own: what they do delays nobody who posts. Safe for concurrent use.
type mailbox struct {
	stopped chan struct{} // closed when run has returned
	wake    chan struct{} // says that queue or closed has changed

	mu     sync.Mutex // guards what follows
	queue  []func()
	closed bool
}

func newMailbox() *mailbox {
	m := &mailbox{stopped: make(chan struct{}), wake: make(chan struct{}, 1)}
	go m.run()
	return m
}

// post reports whether f will be run: not after close, nor while bound others wait.
func (m *mailbox) post(f func(), bound int) bool {
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

// close has run return once it has run what is queued.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) run() {
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
