// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"sync"
	"time"
)

// A queue passes items from those who put to the one who takes, in order: not
// while it is held, and none before its time. It is what a connection's two
// directions are made of.
type queue[T any] struct {
	mu     sync.Mutex // guards what follows
	moved  *sync.Cond // signalled at each change
	items  []queued[T]
	size   int // of the items, as their putters gave it
	held   bool
	closed bool
	timer  *time.Timer // for the item in front, while it is not due
}

type queued[T any] struct {
	item T
	size int
	due  time.Time // zero: immediately
	held []*gate   // it is not taken before these open
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.moved = sync.NewCond(&q.mu)
	return q
}

// put adds an item, which is due after delay. After close it is dropped.
func (q *queue[T]) put(item T, size int, delay time.Duration) { q.putBehind(nil, item, size, delay) }

// putBehind is put for an item that is not taken before the gates open: stir has that
// noticed.
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
	q.moved.Broadcast()
}

// take waits for the next item. ok is false once the queue is closed.
func (q *queue[T]) take() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return item, false
		case !q.held && len(q.items) > 0 && q.items[0].passes() && q.isDue(q.items[0].due):
			front := q.items[0]
			q.items[0] = queued[T]{} // let go of what it holds
			q.items = q.items[1:]
			q.size -= front.size
			q.moved.Broadcast()
			return front.item, true
		}
		q.moved.Wait()
	}
}

// passes reports whether all gates of the item are open.
func (i *queued[T]) passes() bool {
	return !slices.ContainsFunc(i.held, func(g *gate) bool { return !g.open.Load() })
}

// isDue says whether an item's time has come, and otherwise has the queue look
// again when it does. The caller holds mu.
func (q *queue[T]) isDue(due time.Time) bool {
	if due.IsZero() {
		return true
	}
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.stir)
	} else {
		q.timer.Reset(wait)
	}
	return false
}

// stir has the queue looked at again.
func (q *queue[T]) stir() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moved.Broadcast()
}

// room waits until the items in the queue are below limit in size. ok is false
// once the queue is closed.
func (q *queue[T]) room(limit int) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= limit && !q.closed {
		q.moved.Wait()
	}
	return !q.closed
}

// load is the size of what is in the queue.
func (q *queue[T]) load() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// hold stops the queue, or lets it go on.
func (q *queue[T]) hold(held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = held
	q.moved.Broadcast()
}

func (q *queue[T]) isHeld() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// close ends the queue at once, with what is in it.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.items, q.size = true, nil, 0
	if q.timer != nil {
		q.timer.Stop()
	}
	q.moved.Broadcast()
}
