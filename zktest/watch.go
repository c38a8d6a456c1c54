// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A watchMode says how long a watch lasts and what it covers.
type watchMode int

const (
	once       watchMode = iota // fires one time
	persistent                  // fires until it is removed
	recursive                   // persistent, and for all nodes below as well
)

// A WatchKind says what a watch tells of.
type WatchKind int

// The kinds of watches.
const (
	// WatchData is the watch of getData and of exists: a server does not tell one from
	// the other. It fires once.
	WatchData WatchKind = iota + 1
	// WatchChildren is that of getChildren. It fires once.
	WatchChildren
	// WatchPersistent is made by addWatch, for data and children, and fires until it is
	// removed.
	WatchPersistent
	// WatchRecursive is made by addWatch, for data of the node and of all nodes below it.
	WatchRecursive
)

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

// A Watch is one that a server keeps for a client's connection.
type Watch struct {
	Path    string
	Kind    WatchKind
	Session int64
	Server  int // that keeps it, counted from 0
}

// Watches are those that exist, sorted by path, kind, session and server.
func (e *Ensemble) Watches() []Watch {
	e.mu.Lock()
	defer e.unlock()
	found := make(map[Watch]struct{}) // one that addWatch made is in both tables
	for _, s := range e.servers {
		s.data.list(s, WatchData, found)
		s.children.list(s, WatchChildren, found)
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Watch) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Session, b.Session), cmp.Compare(a.Server, b.Server))
	})
}

// list adds the table's watches, of which those that fire once are of this kind.
func (t *watchTable) list(s *Server, kind WatchKind, found map[Watch]struct{}) {
	for path, watchers := range t.byPath {
		for c, mode := range watchers {
			w := Watch{Path: path, Kind: kind, Session: c.session.id, Server: s.index}
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

// A watchTable is one kind of watches on one server: those for data, or those for
// children. A connection has one watch on a path at most, of the mode that was asked
// for last: ZooKeeper 3.8 forgets a persistent watch for a later read of the same
// path that watches it once.
type watchTable struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]map[string]struct{}
	recursive int // how many of them cover what is below
}

func newWatchTable() *watchTable {
	return &watchTable{byPath: make(map[string]map[*conn]watchMode), byConn: make(map[*conn]map[string]struct{})}
}

func (t *watchTable) add(c *conn, path string, mode watchMode) {
	t.remove(c, path)
	if mode == recursive {
		t.recursive++
	}
	watchers := t.byPath[path]
	if watchers == nil {
		watchers = make(map[*conn]watchMode)
		t.byPath[path] = watchers
	}
	watchers[c] = mode
	paths := t.byConn[c]
	if paths == nil {
		paths = make(map[string]struct{})
		t.byConn[c] = paths
	}
	paths[path] = struct{}{}
}

// watched says whether anybody watches the path.
func (t *watchTable) watched(path string) bool { return len(t.byPath[path]) > 0 }

// remove takes away a connection's watch on a path, and says whether there was one.
func (t *watchTable) remove(c *conn, path string) bool {
	mode, found := t.byPath[path][c]
	if !found {
		return false
	}
	if mode == recursive {
		t.recursive--
	}
	delete(t.byPath[path], c)
	if len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	delete(t.byConn[c], path)
	if len(t.byConn[c]) == 0 {
		delete(t.byConn, c)
	}
	return true
}

// forget takes away all watches of a connection.
func (t *watchTable) forget(c *conn) {
	for path := range t.byConn[c] {
		t.remove(c, path)
	}
}

// count is how many watches there are.
func (t *watchTable) count() (watches int) {
	for _, watchers := range t.byPath {
		watches += len(watchers)
	}
	return watches
}

// trigger finds who is to be told of a change at path, and takes away the watches
// that fire one time only. Those in told were told of it already.
func (t *watchTable) trigger(kind wire.EventType, path string, told map[*conn]bool) (watchers map[*conn]bool) {
	watchers = make(map[*conn]bool)
	for c, mode := range t.byPath[path] {
		if mode != recursive || kind != wire.EventNodeChildrenChanged {
			watchers[c] = true
		}
		if mode == once {
			t.remove(c, path)
		}
	}
	if t.recursive > 0 && kind != wire.EventNodeChildrenChanged {
		for above := parentOf(path); above != ""; above = parentOf(above) {
			for c, mode := range t.byPath[above] {
				if mode == recursive {
					watchers[c] = true
				}
			}
		}
	}
	for c := range told {
		delete(watchers, c)
	}
	return watchers
}

// parentOf is the path of the node above, "" for the root's.
func parentOf(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case path == "/":
		return ""
	case i <= 0:
		return "/"
	default:
		return path[:i]
	}
}

// tell has the server's connections hear of a change. The caller holds the ensemble's
// mu.
func (s *Server) tell(change tree.Change) {
	kind, path := change.Type, change.Path
	switch kind {
	case wire.EventNodeCreated:
		s.send(s.data.trigger(kind, path, nil), kind, path, change.ACL)
		s.tellChildren(parentOf(path), change.ParentACL)
	case wire.EventNodeDeleted:
		told := s.data.trigger(kind, path, nil)
		s.send(told, kind, path, change.ACL)
		s.send(s.children.trigger(kind, path, told), kind, path, change.ACL)
		s.tellChildren(parentOf(path), change.ParentACL)
	case wire.EventNodeDataChanged:
		s.send(s.data.trigger(kind, path, nil), kind, path, change.ACL)
	}
}

// inOrder are the connections of a set, first come first: what happens to several at
// one instant happens in the same order each time.
func inOrder[V any](set map[*conn]V) []*conn {
	all := slices.Collect(maps.Keys(set))
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	return all
}

func (s *Server) tellChildren(path string, acl []wire.ACL) {
	const kind = wire.EventNodeChildrenChanged
	s.send(s.children.trigger(kind, path, nil), kind, path, acl)
}

// send sends an event to those who may read the node: the others had their watch for
// nothing.
func (s *Server) send(to map[*conn]bool, kind wire.EventType, path string, acl []wire.ACL) {
	if len(to) == 0 {
		return
	}
	for _, c := range inOrder(to) {
		if tree.Readable(acl, c.who) {
			c.event(kind, path)
		}
	}
}

// setWatches restores the watches of a client that has attached again. What
// changed since relative is told at once.
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

// addRecursive takes a place in both tables, though nobody is told of children by it:
// it replaces whatever watch was there.
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

// lookForWatch answers checkWatches and removeWatches. The first is content with a
// watch of anybody's, in ZooKeeper 3.8, and so it is here.
func (s *Server) lookForWatch(c *conn, path string, kind int32, remove bool) wire.Code {
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
