// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A WatchKind is the kind of a watch: the events that it fires for.
type WatchKind int

// The kinds of watches.
const (
	// WatchData is the watch of getData and of exists, which a server does not
	// distinguish. It fires once.
	WatchData WatchKind = iota + 1
	// WatchChildren is the watch of getChildren. It fires once.
	WatchChildren
	// WatchPersistent is set by addWatch, covers data and children, and fires until it is
	// removed.
	WatchPersistent
	// WatchRecursive is set by addWatch, and covers the data of the node and of all nodes
	// below it.
	WatchRecursive
)

// String returns the kind, in a word.
func (k WatchKind) String() string {
	switch k {
	case WatchData:
		return "data"
	case WatchChildren:
		return "children"
	case WatchPersistent:
		return "persistent"
	case WatchRecursive:
		return "recursive"
	}
	return "no kind"
}

// A Watch is a watch of a client's connection on a server.
type Watch struct {
	Path    string
	Kind    WatchKind
	Session int64
	Server  int // by its id
}

// Watches returns the existing watches, sorted by path, kind, session and server.
func (e *Ensemble) Watches() []Watch {
	e.mu.Lock()
	defer e.unlock()
	found := make(map[Watch]struct{}) // a set, because a watch of addWatch is in both tables
	for _, s := range e.servers {
		s.data.list(s, WatchData, found)
		s.children.list(s, WatchChildren, found)
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Watch) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Session, b.Session), cmp.Compare(a.Server, b.Server))
	})
}

// list adds the table's watches to found; kind is the kind of those that fire once.
func (t *watchTable) list(s *Server, kind WatchKind, found map[Watch]struct{}) {
	for path, watchers := range t.byPath {
		for c, mode := range watchers {
			w := Watch{Path: path, Kind: kind, Session: c.session.id, Server: s.id}
			switch mode {
			case persistent:
				w.Kind = WatchPersistent
			case recursive:
				w.Kind = WatchRecursive
			}
			found[w] = struct{}{}
		}
	}
}

// notify sends the events of a change to the server's connections. The caller holds the
// ensemble's mu.
func (s *Server) notify(change tree.Change) {
	kind, path := change.Type, change.Path
	switch kind {
	case wire.EventNodeCreated:
		s.send(s.data.trigger(kind, path, nil), kind, path, change.ACL)
		s.notifyChildren(parentOf(path), change.ParentACL)
	case wire.EventNodeDeleted:
		notified := s.data.trigger(kind, path, nil)
		s.send(notified, kind, path, change.ACL)
		s.send(s.children.trigger(kind, path, notified), kind, path, change.ACL)
		s.notifyChildren(parentOf(path), change.ParentACL)
	case wire.EventNodeDataChanged:
		s.send(s.data.trigger(kind, path, nil), kind, path, change.ACL)
	}
}

// notifyChildren notifies the watchers of a node's children.
func (s *Server) notifyChildren(path string, acl []wire.ACL) {
	const kind = wire.EventNodeChildrenChanged
	s.send(s.children.trigger(kind, path, nil), kind, path, acl)
}

// send sends an event to the connections that may read the node. The other connections
// have lost their watch without an event.
func (s *Server) send(to map[*conn]bool, kind wire.EventType, path string, acl []wire.ACL) {
	if len(to) == 0 {
		return
	}
	for _, c := range inOrder(to) {
		if tree.Readable(acl, c.identities) {
			c.event(kind, path)
		}
	}
}

// setWatches restores the watches of a client that has attached again. For changes since
// RelativeZxid it sends the events immediately.
func (s *Server) setWatches(c *conn, req wire.SetWatches) {
	for _, path := range req.Data {
		stat, code := s.tree.Exists(path)
		switch {
		case code != wire.OK:
			c.event(wire.EventNodeDeleted, path)
		case stat.Mzxid > req.RelativeZxid:
			c.event(wire.EventNodeDataChanged, path)
		default:
			s.data.add(c, path, once)
		}
	}
	for _, path := range req.Exist {
		if _, code := s.tree.Exists(path); code == wire.OK {
			c.event(wire.EventNodeCreated, path)
		} else {
			s.data.add(c, path, once)
		}
	}
	for _, path := range req.Child {
		stat, code := s.tree.Exists(path)
		switch {
		case code != wire.OK:
			c.event(wire.EventNodeDeleted, path)
		case stat.Pzxid > req.RelativeZxid:
			c.event(wire.EventNodeChildrenChanged, path)
		default:
			s.children.add(c, path, once)
		}
	}
	for _, path := range req.Persistent {
		s.data.add(c, path, persistent)
		s.children.add(c, path, persistent)
	}
	for _, path := range req.PersistentRecursive {
		s.addRecursive(c, path)
	}
}

// addRecursive adds the watch to both tables, although it fires no events for children:
// it replaces any watch that the connection had in either.
func (s *Server) addRecursive(c *conn, path string) {
	s.data.add(c, path, recursive)
	s.children.add(c, path, recursive)
}

// The watcher types of removeWatches and checkWatches.
const (
	watcherChildren = 1
	watcherData     = 2
	watcherAny      = 3
)

// findWatch answers checkWatches and removeWatches. As in ZooKeeper 3.8, checkWatches
// accepts a watch of any connection.
func (s *Server) findWatch(c *conn, path string, kind int32, remove bool) wire.Code {
	var tables []*watchTable
	switch kind {
	case watcherChildren:
		tables = []*watchTable{s.children}
	case watcherData:
		tables = []*watchTable{s.data}
	case watcherAny:
		tables = []*watchTable{s.children, s.data}
	default:
		return wire.MarshallingError
	}
	found := false
	for _, t := range tables {
		if remove {
			found = t.remove(c, path) || found
		} else {
			found = t.watched(path) || found
		}
	}
	if !found {
		return wire.NoWatcher
	}
	return wire.OK
}
