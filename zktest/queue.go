// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"sync"
	"time"
)

// A queue passes items from its producers to its one consumer, in order: none while the
// queue is held, and none before it is due. A connection has one for each direction.
type queue[T any] struct {
	mu      sync.Mutex // guards what follows
	changed *sync.Cond // signalled at each change
	items   []queued[T]
	size    int // of the items, as passed to put
	held    bool
	closed  bool
	timer   *time.Timer // fires when the first item is due
}

type queued[T any] struct {
	item  T
	size  int
	due   time.Time // zero: immediately
	gates []*gate   // which must open before the item is taken
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// put adds an item, which is due after delay. After close it is dropped.
func (q *queue[T]) put(item T, size int, delay time.Duration) { q.putBehind(nil, item, size, delay) }

// putBehind is put for an item that is not taken before the gates open. Opening a gate
// must be followed by wake.
func (q *queue[T]) putBehind(gates []*gate, item T, size int, delay time.Duration) {
	var due time.Time
	if delay > 0 {
		due = time.Now().Add(delay)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.items = append(q.items, queued[T]{item, size, due, gates})
	q.size += size
	q.changed.Broadcast()
}

// take waits for the next item. ok is false once the queue is closed.
func (q *queue[T]) take() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return item, false
		case !q.held && len(q.items) > 0 && q.items[0].gatesOpen() && q.isDue(q.items[0].due):
			front := q.items[0]
			q.items[0] = queued[T]{} // release the item's memory
			q.items = q.items[1:]
			q.size -= front.size
			q.changed.Broadcast()
			return front.item, true
		}
		q.changed.Wait()
	}
}

// gatesOpen reports whether all gates of the item are open.
func (i *queued[T]) gatesOpen() bool {
	return !slices.ContainsFunc(i.gates, func(g *gate) bool { return !g.open.Load() })
}

// isDue reports whether an item that is due at that time is due now, and if not,
// schedules a wake for it. The caller holds mu.
func (q *queue[T]) isDue(due time.Time) bool {
	if due.IsZero() {
		return true
	}
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.wake)
	} else {
		q.timer.Reset(wait)
	}
	return false
}

// wake makes take examine the queue again.
func (q *queue[T]) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed.Broadcast()
}

// waitForRoom waits until the total size of the items is below limit. ok is false once
// the queue is closed.
func (q *queue[T]) waitForRoom(limit int) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= limit && !q.closed {
		q.changed.Wait()
	}
	return !q.closed
}

// load returns the total size of the items in the queue.
func (q *queue[T]) load() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// hold stops the queue, or resumes it.
func (q *queue[T]) hold(held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = held
	q.changed.Broadcast()
}

func (q *queue[T]) isHeld() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// close ends the queue immediately, and drops its items.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.items, q.size = true, nil, 0
	if q.timer != nil {
		q.timer.Stop()
	}
	q.changed.Broadcast()
}
