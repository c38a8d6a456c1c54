// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"sync"
)

// maxGone bounds the departures that a line remembers between two listings.
const maxGone = 1 << 10

// longQueue is the number of names from which a queue is long: they are then forgotten, or used longer, to spare memory and listings.
const longQueue = 64

// A line is what a replica knows of the front of a queue since it last listed it, so that a hand-off
// between waiters of one replica needs no listing.
//
// A listing that has a node has all contenders that joined before it and still existed. None can join
// ahead of it later, and a name that was deleted does not return. So the node is the first one when all
// names ahead of it in any such listing are known to be deleted, however old the listing is.
type line struct {
	mu    sync.Mutex          // guards what follows
	names []string            // of the listing, from the first one on that is not known to be deleted
	gone  map[string]struct{} // names that are known to be deleted
}

// listed notes a listing, the front first. The line does not change it.
func (l *line) listed(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.gone = names, nil
}

// forgetLong forgets the names of a queue that was long.
func (l *line) forgetLong() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.names) >= longQueue/2 || len(l.gone) >= longQueue {
		l.names, l.gone = nil, nil
	}
}

// left notes that a node is deleted.
func (l *line) left(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gone) >= maxGone {
		l.names, l.gone = nil, nil
	}
	if l.gone == nil {
		l.gone = make(map[string]struct{})
	}
	l.gone[name] = struct{}{}
}

// isFirst reports whether the node is known to have no contender ahead.
func (l *line) isFirst(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.IndexFunc(l.names, func(n string) bool {
		_, gone := l.gone[n]
		return !gone
	})
	if known < 0 {
		return false
	}
	for _, n := range l.names[:known] {
		delete(l.gone, n)
	}
	left := l.names[known:]
	if known > len(left) {
		left = slices.Clone(left) // or the names before would stay in memory
	}
	l.names = left
	return l.names[0] == name
}
