// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A watchMode says how long a watch lasts and what it covers.
type watchMode int

const (
	once       watchMode = iota // fires one time
	persistent                  // fires until it is removed
	recursive                   // persistent, and for all nodes below as well
)

// A watchTable is one kind of watches on one server: those for data, or those for
// children. A connection has one watch of a mode on a path at most.
type watchTable struct {
	byPath    map[string]map[*conn]watchModes
	byConn    map[*conn]map[string]struct{}
	recursive int // how many of them cover what is below
}

// watchModes is a set of them: a path can be watched in several at a time.
type watchModes uint8

func (m watchModes) has(mode watchMode) bool { return m&(1<<mode) != 0 }

func newWatchTable() *watchTable {
	return &watchTable{byPath: make(map[string]map[*conn]watchModes), byConn: make(map[*conn]map[string]struct{})}
}

func (t *watchTable) add(c *conn, path string, mode watchMode) {
	watchers := t.byPath[path]
	if watchers == nil {
		watchers = make(map[*conn]watchModes)
		t.byPath[path] = watchers
	}
	if mode == recursive && !watchers[c].has(recursive) {
		t.recursive++
	}
	watchers[c] |= 1 << mode
	paths := t.byConn[c]
	if paths == nil {
		paths = make(map[string]struct{})
		t.byConn[c] = paths
	}
	paths[path] = struct{}{}
}

// has says whether the connection watches the path, in one of the modes.
func (t *watchTable) has(c *conn, path string, modes ...watchMode) bool {
	for _, mode := range modes {
		if t.byPath[path][c].has(mode) {
			return true
		}
	}
	return false
}

// remove takes away a connection's watches on a path, and says whether there were any.
func (t *watchTable) remove(c *conn, path string, modes ...watchMode) (existed bool) {
	set, found := t.byPath[path][c]
	if !found {
		return false
	}
	for _, mode := range modes {
		if !set.has(mode) {
			continue
		}
		existed = true
		set &^= 1 << mode
		if mode == recursive {
			t.recursive--
		}
	}
	t.keep(c, path, set)
	return existed
}

// keep leaves the connection with these modes on the path.
func (t *watchTable) keep(c *conn, path string, set watchModes) {
	if set != 0 {
		t.byPath[path][c] = set
		return
	}
	delete(t.byPath[path], c)
	if len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	delete(t.byConn[c], path)
	if len(t.byConn[c]) == 0 {
		delete(t.byConn, c)
	}
}

// forget takes away all watches of a connection.
func (t *watchTable) forget(c *conn) {
	for path := range t.byConn[c] {
		t.remove(c, path, once, persistent, recursive)
	}
}

// count is how many watches there are.
func (t *watchTable) count() (watches, paths, conns int) {
	for _, watchers := range t.byPath {
		watches += len(watchers)
	}
	return watches, len(t.byPath), len(t.byConn)
}

// trigger finds who is to be told of a change at path, and takes away the watches
// that fire one time only. Those in told were told of it already.
func (t *watchTable) trigger(kind wire.EventType, path string, told map[*conn]bool) (watchers map[*conn]bool) {
	watchers = make(map[*conn]bool)
	for c, set := range t.byPath[path] {
		if kind != wire.EventNodeChildrenChanged || set.has(once) || set.has(persistent) {
			watchers[c] = true
		}
	}
	for c := range watchers {
		t.remove(c, path, once)
	}
	if t.recursive > 0 && kind != wire.EventNodeChildrenChanged {
		for above := parentOf(path); above != ""; above = parentOf(above) {
			for c, set := range t.byPath[above] {
				if set.has(recursive) {
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

// tell has the server's connections hear of the changes of a transaction. The
// caller holds the ensemble's mu.
func (s *Server) tell(kind wire.EventType, path string) {
	switch kind {
	case wire.EventNodeCreated:
		s.send(s.data.trigger(kind, path, nil), kind, path)
		s.tellChildren(parentOf(path))
	case wire.EventNodeDeleted:
		told := s.data.trigger(kind, path, nil)
		s.send(told, kind, path)
		s.send(s.children.trigger(kind, path, told), kind, path)
		s.tellChildren(parentOf(path))
	case wire.EventNodeDataChanged:
		s.send(s.data.trigger(kind, path, nil), kind, path)
	}
}

func (s *Server) tellChildren(path string) {
	s.send(s.children.trigger(wire.EventNodeChildrenChanged, path, nil), wire.EventNodeChildrenChanged, path)
}

func (s *Server) send(to map[*conn]bool, kind wire.EventType, path string) {
	if len(to) == 0 {
		return
	}
	frame := wire.EventFrame(kind, path)
	for c := range to {
		c.send(frame)
	}
}

// setWatches restores the watches of a client that has attached again. What
// changed since relative is told at once.
func (s *Server) setWatches(c *conn, req wire.SetWatches) {
	for _, path := range req.Data {
		stat, code := s.tree.Exists(path)
		switch {
		case code != wire.OK:
			c.send(wire.EventFrame(wire.EventNodeDeleted, path))
		case stat.Mzxid > req.RelativeZxid:
			c.send(wire.EventFrame(wire.EventNodeDataChanged, path))
		default:
			s.data.add(c, path, once)
		}
	}
	for _, path := range req.Exist {
		if _, code := s.tree.Exists(path); code == wire.OK {
			c.send(wire.EventFrame(wire.EventNodeCreated, path))
		} else {
			s.data.add(c, path, once)
		}
	}
	for _, path := range req.Child {
		stat, code := s.tree.Exists(path)
		switch {
		case code != wire.OK:
			c.send(wire.EventFrame(wire.EventNodeDeleted, path))
		case stat.Pzxid > req.RelativeZxid:
			c.send(wire.EventFrame(wire.EventNodeChildrenChanged, path))
		default:
			s.children.add(c, path, once)
		}
	}
	for _, path := range req.Persistent {
		s.data.add(c, path, persistent)
		s.children.add(c, path, persistent)
	}
	for _, path := range req.PersistentRecursive {
		s.data.add(c, path, recursive)
	}
}

// The watcher types of removeWatches and checkWatches.
const (
	watcherChildren = 1
	watcherData     = 2
	watcherAny      = 3
)

// lookForWatch answers checkWatches and removeWatches.
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
		return wire.BadArguments
	}
	found := false
	for _, t := range tables {
		if remove {
			found = t.remove(c, path, once, persistent, recursive) || found
		} else {
			found = t.has(c, path, once, persistent, recursive) || found
		}
	}
	if !found {
		return wire.NoWatcher
	}
	return wire.OK
}
