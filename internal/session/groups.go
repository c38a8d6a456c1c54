// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A group is one transaction with the writes of several callers. These bounds keep it far below the size of packet over which a
// server drops the connection, as the bounds of a heartbeat do.
const (
	maxGrouped      = 64 // operations
	maxGroupedBytes = 64 << 10
)

// groups collect the writes of callers while a group of the session is in flight. The zero value is ready to use.
type groups struct {
	mu       sync.Mutex       // guards what follows
	inFlight int              // groups that were sent and not answered
	leading  [roles]int       // callers of that role who wait for the turn in which they send the next group
	pending  [roles]list.List // of *Write, of callers who have come since
	taken    int              // writes that groups have taken from those
	queues   map[string]bool  // whose writes are pending, or in a group in flight
	refused  map[string]bool  // queues whose writes a server has refused, and that stay alone
}

// maxRefused bounds the queues that are known to be refused. Beyond it, each of them forgets another one.
const maxRefused = 16 << 10

// arrive reports whether the write is sent in a group, and whether its caller is the one that sends it. If not, it is pending.
func (g *groups) arrive(w *Write) (leads, grouped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// A burst of joins in one queue does not wait: no two of them fit into one group.
	if w.Alone || g.refused[w.Queue] || g.queues[w.Queue] {
		return false, false
	}
	if w.Queue != "" {
		if g.queues == nil {
			g.queues = make(map[string]bool)
		}
		g.queues[w.Queue] = true
	}
	if g.inFlight == 0 && !g.isLed(w.as) {
		g.leading[w.as]++
		return true, true
	}
	w.told = make(chan told, 1)
	w.in = g.pending[w.as].PushBack(w)
	return false, true
}

// isLed reports whether a caller of that role is about to send a group, or one that has its turn before. The caller holds mu.
func (g *groups) isLed(as Role) bool {
	return slices.ContainsFunc(g.leading[as:], func(n int) bool { return n > 0 })
}

// leave reports whether the write was pending until now.
func (g *groups) leave(w *Write) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.in == nil {
		return false
	}
	g.take(w)
	delete(g.queues, w.Queue)
	return true
}

// take makes the write no longer pending. The caller holds mu.
func (g *groups) take(w *Write) {
	g.pending[w.as].Remove(w.in)
	w.in = nil
}

// next returns the pending write that comes next after so many were served, nil if there is none. The caller holds mu.
func (g *groups) next(served int) *Write {
	for _, as := range precedence(served) {
		if e := g.pending[as].Front(); e != nil {
			return e.Value.(*Write)
		}
	}
	return nil
}

// passOn makes the caller of a pending write send the next group, a holder if possible, unless another one is about to. The caller holds
// mu.
func (g *groups) passOn() {
	if w := g.next(0); w != nil && !g.isLed(w.as) {
		g.take(w)
		g.lead(w)
	}
}

// lead makes the caller of a write that was pending send the next group. The caller holds mu.
func (g *groups) lead(w *Write) {
	g.leading[w.as]++
	w.told <- sendGroup
}

// resign records that the caller does not send the next group.
func (g *groups) resign(w *Write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading[w.as]--
	delete(g.queues, w.Queue)
	if g.inFlight == 0 {
		g.passOn()
	}
}

// compose begins a group, and returns it with its operations: the first write, whose turn is mine, and as many of the pending ones as
// fit. What does not fit is sent without waiting for the answer.
func (g *groups) compose(mine *Turn, first *Write) (group []*Write, ops []any) {
	group, ops = []*Write{first}, first.operations()
	size := first.bytes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading[first.as]--
	g.inFlight++
	defer g.passOn()
	for {
		w := g.next(g.taken)
		if w == nil {
			break
		}
		g.take(w)
		g.taken++
		if size += g.bytes(w); size > maxGroupedBytes || len(ops)+len(w.ops) > maxGrouped {
			g.lead(w)
			break
		}
		if len(group) == 1 {
			ops = append(make([]any, 0, maxGrouped), ops...)
		}
		mine.Add(w.as)
		group, ops = append(group, w), append(ops, w.ops...)
	}
	return group, ops
}

// bytes determines the operations of a write, which code of other packages does, and returns their size. The caller holds mu.
func (g *groups) bytes(w *Write) int {
	g.mu.Unlock()
	defer g.mu.Lock()
	return w.bytes()
}

// end records that a group was answered.
func (g *groups) end(group []*Write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range group {
		delete(g.queues, w.Queue)
	}
	if g.inFlight--; g.inFlight == 0 {
		g.passOn()
	}
}

// record records the answer to a write that was alone in its transaction.
func (g *groups) record(w *Write, each []zk.MultiResponse, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		delete(g.refused, w.Queue)
	case w.Queue == "" || w.Alone || g.refused[w.Queue] || !isRefused(each, err):
	default:
		if g.refused == nil {
			g.refused = make(map[string]bool)
		}
		for queue := range g.refused {
			if len(g.refused) < maxRefused {
				break
			}
			delete(g.refused, queue)
		}
		g.refused[w.Queue] = true
	}
}
