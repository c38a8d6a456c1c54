// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A WatchKind is the kind of event that a watch waits for.
type WatchKind int

// The kinds of watches.
const (
	WatchNode     WatchKind = iota // an existing node's change or deletion
	WatchChildren                  // a change of an existing node's children
	WatchCreation                  // the creation of a missing node
)

type watchKey struct {
	path string
	kind WatchKind
}

// A Watch is one watch of the client, shared by all callers that wait for the same event.
type Watch struct {
	set   chan struct{} // closed once the server has answered
	fired chan struct{} // closed when the node may have changed
	calls int           // of sender.Watch that have not returned; guarded by watches.mu
	err   error         // the server's; written before set is closed, as is what follows

	detached <-chan struct{} // closed once the connection has ended on which it was set

	event zk.EventType // that fired the watch; written before fired is closed

	// Of WatchNode and WatchChildren: the node, or its children and its Stat, as the server
	// showed them when it set the watch, and when its answer was received.
	data     []byte
	children []string
	stat     *zk.Stat
	at       time.Time
}

// Changed reports whether a write to the node fired the watch: the node still existed then.
// It is valid once the watch has fired.
func (w *Watch) Changed() bool { return w.event == zk.EventNodeDataChanged }

// Deleted reports whether the deletion of the node fired the watch. It is valid once the watch
// has fired, as the end of the session also makes it do.
func (w *Watch) Deleted() bool { return w.event == zk.EventNodeDeleted }

// Content returns the node as it was when the watch was set, and the instant at which that
// was known. Until the watch fires, this client's server shows no other content. It is valid
// for a WatchNode that was set without an error.
func (w *Watch) Content() (data []byte, stat *zk.Stat, at time.Time) { return w.data, w.stat, w.at }

// Children is Content for a WatchChildren: the names of the children, in no order, and the
// Stat of the node.
func (w *Watch) Children() (names []string, stat *zk.Stat) { return w.children, w.stat }

// Detached returns a channel that is closed once the connection has ended on which the watch was set. On a later one the watch is not
// set before the answer to SetWatches, and events of other watches come earlier. It is valid for a watch that was set without
// an error.
func (w *Watch) Detached() <-chan struct{} { return w.detached }

// Fired returns a channel that is closed when the node may have changed.
func (w *Watch) Fired() <-chan struct{} { return w.fired }

// watches are the watches that a session has set. The client cannot remove a watch, so those
// of cancelled waiters would accumulate: sharing limits them to one of each kind for each live
// node. Events come through the client's callback, which drops none.
type watches struct {
	mu    sync.Mutex // guards what follows
	set   map[watchKey]*Watch
	bells map[string]map[chan struct{}]struct{} // by the path of the node that each is for
}

func newWatches() watches {
	return watches{set: make(map[watchKey]*Watch), bells: make(map[string]map[chan struct{}]struct{})}
}

// at returns the watch of key, and whether the caller must set it. The caller calls leave when it returns. The watch is registered
// before the request is sent: the event may come before the reply is handled.
func (ws *watches) at(key watchKey) (w *Watch, isNew bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w = ws.set[key]; w == nil {
		w, isNew = &Watch{set: make(chan struct{}), fired: make(chan struct{})}, true
		ws.set[key] = w
	}
	w.calls++
	return w, isNew
}

// leave ends a call that at has begun.
func (ws *watches) leave(w *Watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.calls--
}

// abandon removes the watch, which was not set so far, unless a call waits for it. A later call gets another one.
func (ws *watches) abandon(key watchKey, w *Watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.calls > 0 {
		return false
	}
	if ws.set[key] == w {
		delete(ws.set, key)
	}
	return true
}

// event handles one event of a node. The client calls it before it delivers any later packet
// of the server.
func (ws *watches) event(ev zk.Event) {
	var kinds []WatchKind
	switch ev.Type {
	case zk.EventNodeCreated:
		kinds = []WatchKind{WatchCreation, WatchNode}
	case zk.EventNodeDataChanged:
		kinds = []WatchKind{WatchNode, WatchCreation}
	case zk.EventNodeChildrenChanged:
		kinds = []WatchKind{WatchChildren}
	default: // deleted, or no longer watched
		kinds = []WatchKind{WatchNode, WatchChildren, WatchCreation}
	}
	for _, kind := range kinds {
		ws.drop(watchKey{ev.Path, kind}, nil, ev.Type)
	}
	ws.ring(ev.Path)
	ws.ring(above(ev.Path))
}

// drop removes the watch of key, if w is nil or that watch, and wakes the callers that wait
// for its event, which is event.
func (ws *watches) drop(key watchKey, w *Watch, event zk.EventType) {
	ws.mu.Lock()
	found := ws.set[key]
	if found == nil || w != nil && found != w {
		ws.mu.Unlock()
		return
	}
	delete(ws.set, key)
	ws.mu.Unlock()
	found.event = event
	close(found.fired)
}

// dropAll removes all watches and wakes their callers.
func (ws *watches) dropAll() {
	ws.mu.Lock()
	all := ws.set
	ws.set = make(map[watchKey]*Watch)
	ws.mu.Unlock()
	for _, w := range all {
		close(w.fired)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, bells := range ws.bells {
		ringAll(bells)
	}
}
