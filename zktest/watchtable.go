// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func newWatchTable() *watchTable {
	return &watchTable{byPath: make(map[string]map[*conn]watchMode), byConn: make(map[*conn]map[string]struct{})}
}

func (t *watchTable) add(c *conn, path string, mode watchMode) {
	t.remove(c, path)
	if c.ended { // by the event of another watch
		return
	}
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

// watched reports whether any connection watches the path.
func (t *watchTable) watched(path string) bool { return len(t.byPath[path]) > 0 }

// remove removes a connection's watch on a path, and reports whether there was one.
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

// forget removes all watches of a connection.
func (t *watchTable) forget(c *conn) {
	for path := range t.byConn[c] {
		t.remove(c, path)
	}
}

// count returns the number of watches.
func (t *watchTable) count() (watches int) {
	for _, watchers := range t.byPath {
		watches += len(watchers)
	}
	return watches
}

// trigger returns the connections to notify of a change at path, except those already
// notified, and removes the watches that fire once.
func (t *watchTable) trigger(kind wire.EventType, path string, notified map[*conn]bool) (watchers map[*conn]bool) {
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
	for c := range notified {
		delete(watchers, c)
	}
	return watchers
}

// parentOf returns the path of the parent, "" for the root.
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
