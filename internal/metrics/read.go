// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Read calls set with each value of the client's Gauges and ReadCounters, and the values of the
// metric's labels. It does no I/O. label is Trace's: the values of paths that it gives the same
// label are combined.
func Read(client *recipes.Client, label func(path string) string, set func(m *Metric, value float64, labels ...string)) {
	var all recipes.QueueState
	byLabel := map[string]recipes.QueueState{"": {}} // so that the metrics exist without a queue
	for _, q := range client.Queues() {
		all = sum(all, q)
		l := label(q.Path)
		byLabel[l] = sum(byLabel[l], q)
	}
	for l, q := range byLabel {
		set(Waiters, float64(q.Waiting), l)
		set(Holds, float64(q.Held), l)
		held := time.Duration(0)
		if q.Held > 0 {
			held = time.Since(q.Oldest)
		}
		set(OldestHold, held.Seconds(), l)
	}
	set(Nodes, float64(all.Joining), "joining")
	set(Nodes, float64(all.Waiting), "waiting")
	set(Nodes, float64(all.Held), "held")
	set(Nodes, float64(all.Deleting), "deleting")
	ready := 0.0
	if client.Ready() == nil {
		ready = 1
	}
	set(Ready, ready)
	unguarded := 0.0
	if client.State().Unguarded != nil {
		unguarded = 1
	}
	set(Unguarded, unguarded)
	set(SessionTimeout, client.SessionTimeout().Seconds())
	set(DroppedEvents, float64(client.DroppedEvents()))
}

// sum returns the state of two queues as one.
func sum(a, b recipes.QueueState) recipes.QueueState {
	a.Joining += b.Joining
	a.Waiting += b.Waiting
	a.Held += b.Held
	a.Deleting += b.Deleting
	if a.Oldest.IsZero() || !b.Oldest.IsZero() && b.Oldest.Before(a.Oldest) {
		a.Oldest = b.Oldest
	}
	return a
}
