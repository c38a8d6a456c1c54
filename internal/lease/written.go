// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"strings"
	"sync"
)

// A replica remembers at most maxWritten nodes, each with at most maxRemembered bytes of identities
// and metadata: most take about 700 bytes. A node that it does not remember costs a read, or a
// listing.
const (
	maxWritten    = 1 << 14
	maxRemembered = 1 << 10
)

// written are the nodes that a replica wrote last, as far as it knows. A write over a remembered
// version needs no read, because it is carried out only if the node still has that version, and so
// the remembered content. It is safe for concurrent use.
type written struct {
	mu  sync.Mutex // guards all
	all map[nodeKey]*write
}

// A nodeKey is the path of a queue and the hint in the name of a node.
type nodeKey struct{ path, hint string }

// A write is the last one of a node.
type write struct {
	node  Contender
	ahead string // of a waiter whose poll has ended: the nearest contender ahead
}

// keyOf returns the key of a node with that name, or of what may be one.
func keyOf(path, name string) nodeKey {
	_, rest, _ := strings.Cut(name, "-")
	return nodeKey{path, rest[:min(len(rest), hintLength)]}
}

// set records the last write of a node.
func (w *written) set(path string, last write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[nodeKey]*write)
	}
	key := keyOf(path, last.node.Name)
	l := last.node.Lease
	if sizeOf(l.Principal, l.Owner, l.Metadata)+hashLength*(len(l.Requests)+len(l.Closed)) > maxRemembered {
		delete(w.all, key)
		return
	}
	if w.all[key] == nil {
		for other := range w.all {
			if len(w.all) < maxWritten {
				break
			}
			delete(w.all, other) // any: it is only knowledge
		}
	}
	w.all[key] = &last
}

// node returns the node of that name as this replica wrote it last.
func (w *written) node(path, name string) (c Contender, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.all[keyOf(path, name)]; last != nil && last.node.Name == name {
		return last.node, true
	}
	return c, false
}

// takeWaiter removes and returns the waiter with that hint, if its poll has ended: of two calls
// for the same request, one goes on with it, and the other one begins with a listing.
func (w *written) takeWaiter(path, hint string) (waiter write, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := nodeKey{path, hint}
	last := w.all[key]
	if last == nil || last.ahead == "" {
		return write{}, false
	}
	delete(w.all, key)
	return *last, true
}

// hinted returns the last written node with that hint.
func (w *written) hinted(path, hint string) (c Contender, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.all[nodeKey{path, hint}]; last != nil {
		return last.node, true
	}
	return c, false
}

// forget forgets the node of that name.
func (w *written) forget(path, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(path, name)
	if last := w.all[key]; last != nil && last.node.Name == name {
		delete(w.all, key)
	}
}

// sizeOf returns the bytes of identities and metadata in a record.
func sizeOf(principal, owner string, metadata map[string]string) int {
	size := len(principal) + len(owner)
	for k, v := range metadata {
		size += len(k) + len(v)
	}
	return size
}
