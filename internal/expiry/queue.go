// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"container/heap"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/session"
)

// maxExpired bounds the nodes that are deleted in one pass: so few are answered well within T/4,
// unless no server answers.
const maxExpired = 4 * session.MaxInFlight

// An observed is one version of a node that the client has seen.
type observed struct {
	path    string
	version int32
	index   [orders]int32 // in each queue
	ttl     time.Duration // 33/32 of the TTL
	expires time.Duration // from the start of the observer, on the monotonic clock
}

// An order of the nodes that are observed.
type order int

const (
	dueFirst  order = iota // the first to expire is first
	lastFirst              // the last to expire is first
	orders
)

// A queue is a heap of nodes. It notes in each node where the node is, so that any node can be moved or removed.
type queue struct {
	order order
	nodes []*observed
}

// first returns the first node, nil if there is none.
func (q *queue) first() *observed {
	if len(q.nodes) == 0 {
		return nil
	}
	return q.nodes[0]
}

func (q *queue) add(n *observed)    { heap.Push(q, n) }
func (q *queue) fix(n *observed)    { heap.Fix(q, int(n.index[q.order])) }
func (q *queue) remove(n *observed) { heap.Remove(q, int(n.index[q.order])) }

// until appends those of a queue with dueFirst below index i that have expired by now, maxExpired at most.
func (q *queue) until(now time.Duration, i int, expired []observed) []observed {
	if i >= len(q.nodes) || q.nodes[i].expires > now || len(expired) >= maxExpired {
		return expired
	}
	return q.until(now, 2*i+2, q.until(now, 2*i+1, append(expired, *q.nodes[i])))
}

// Len returns the number of nodes, for package heap, as the methods below.
func (q *queue) Len() int { return len(q.nodes) }

// Less reports whether one node is before another.
func (q *queue) Less(i, j int) bool {
	if q.order == lastFirst {
		i, j = j, i
	}
	return q.nodes[i].expires < q.nodes[j].expires
}

// Swap swaps two nodes.
func (q *queue) Swap(i, j int) {
	q.nodes[i], q.nodes[j] = q.nodes[j], q.nodes[i]
	q.nodes[i].index[q.order], q.nodes[j].index[q.order] = int32(i), int32(j) //nolint:gosec // bounded by maxObserved
}

// Push adds a node behind the others.
func (q *queue) Push(x any) {
	n := x.(*observed)
	n.index[q.order] = int32(len(q.nodes)) //nolint:gosec // bounded by maxObserved
	q.nodes = append(q.nodes, n)
}

// Pop removes the node behind the others.
func (q *queue) Pop() any {
	last := len(q.nodes) - 1
	n := q.nodes[last]
	q.nodes[last] = nil
	q.nodes = q.nodes[:last]
	return n
}
