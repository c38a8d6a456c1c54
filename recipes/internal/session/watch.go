// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A WatchKind is what a watch waits for.
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

// A Watch is one watch of the client, shared by all who wait for the same thing.
type Watch struct {
	set   chan struct{} // closed once the server has answered
	fired chan struct{} // closed when the node may have changed
	err   error         // the server's; written before set is closed
}

// Fired returns a channel that is closed when the node may have changed.
func (w *Watch) Fired() <-chan struct{} { return w.fired }

// watches are those that a session has set. The client cannot take a watch back,
// so waiters that give up would pile them up: sharing bounds them to one for
// Each live node. Events come by the client's callback, which drops none.
type watches struct {
	mu  sync.Mutex // guards set
	set map[watchKey]*Watch
}

// any reports whether the client may have watches to set again.
func (ws *watches) any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.set) > 0
}

// event is called by the client, for each event of a node, before anything that
// the server says afterwards.
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
		ws.drop(watchKey{ev.Path, kind}, nil)
	}
}

// drop forgets the watch under key, or only if it is w where w is given, and
// wakes those who wait for it.
func (ws *watches) drop(key watchKey, w *Watch) {
	ws.mu.Lock()
	found := ws.set[key]
	if found == nil || w != nil && found != w {
		ws.mu.Unlock()
		return
	}
	delete(ws.set, key)
	ws.mu.Unlock()
	close(found.fired)
}

// dropAll wakes everybody, when the session is over.
func (ws *watches) dropAll() {
	ws.mu.Lock()
	all := ws.set
	ws.set = make(map[watchKey]*Watch)
	ws.mu.Unlock()
	for _, w := range all {
		close(w.fired)
	}
}

// Watch waits until the watch is set, by this call or an earlier one. Its error
// wraps the server's, or ctx's.
func (s *Session) Watch(ctx context.Context, path string, kind WatchKind) (*Watch, error) {
	key := watchKey{path, kind}
	s.watches.mu.Lock()
	w := s.watches.set[key]
	if w == nil {
		// Entered before it is asked for: the event may come before the reply
		// has found its way here.
		w = &Watch{set: make(chan struct{}), fired: make(chan struct{})}
		s.watches.set[key] = w
		s.watches.mu.Unlock()
		s.setWatch(key, w)
	} else {
		s.watches.mu.Unlock()
	}
	select {
	case <-w.set:
		return w, w.err
	case <-ctx.Done():
		return nil, s.fail("watch", path, ctx.Err())
	}
}

// setWatch sets the watch, for all who want it: the one who came first may give up
// before the answer.
func (s *Session) setWatch(key watchKey, w *Watch) {
	err := s.spawn(func() {
		_, err := Ask(s.ctx, s, "watch", key.path, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, requestWatch(conn, key)
		})
		s.wasSet(key, w, err)
	})
	if err != nil {
		s.wasSet(key, w, s.fail("watch", key.path, err))
	}
}

// wasSet tells those who wait for the watch how it went.
func (s *Session) wasSet(key watchKey, w *Watch, err error) {
	w.err = err
	close(w.set)
	if err != nil {
		s.watches.drop(key, w)
	}
}

func requestWatch(conn *zk.Conn, key watchKey) (err error) {
	switch key.kind {
	case WatchNode:
		_, _, _, err = conn.GetW(key.path)
	case WatchChildren:
		_, _, _, err = conn.ChildrenW(key.path)
	case WatchCreation:
		_, _, _, err = conn.ExistsW(key.path)
	}
	return err
}
