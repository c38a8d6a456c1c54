// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A node is one life of a ZooKeeper node, in the ensemble's commit order. A node created again under the same name is
// another one.
type node struct {
	created history.Event
	renewed []history.Event // later writes of its record, in the commit order
	deleted history.Event   // its Kind is empty while the node exists

	downgraded history.Event // no Kind unless the node was
	hold       *hold         // the last that was granted on it, nil if none was
}

// sharedAt reports whether the node was a reader's at an instant.
func (n *node) sharedAt(at history.Instant) bool {
	_, number, found := cutLast(path.Base(n.created.Node), readerSeparator)
	return found && len(number) >= 10 || n.downgraded.Kind != "" && n.downgraded.At <= at
}

// gone returns the instant of the deletion, never if the node exists at the end. The deletion can be up to Blur later.
func (n *node) gone() history.Instant {
	if n.deleted.Kind == "" {
		return never
	}
	return n.deleted.At
}

// goneAtLatest returns the latest instant at which the node can have been deleted.
func (n *node) goneAtLatest(run history.Event) history.Instant {
	if n.deleted.Kind == "" {
		return never
	}
	return n.deleted.At + run.Blur
}

// existedAt reports whether the node had been created before a transaction, and still existed then.
func (n *node) existedAt(zxid history.ID) bool {
	return n.created.Zxid < zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid)
}

// lastWrite returns the last write of the node's record that had happened at an instant: its creation if there was no later one.
func (n *node) lastWrite(at history.Instant) history.Event {
	last := n.created
	for _, e := range n.renewed {
		if e.At <= at {
			last = e
		}
	}
	return last
}

// isContender reports whether a node is a contender. It restates the rule of package recipes independently: a name ends in
// one of separators and the number that ZooKeeper appends to the name of a sequential node. The run itself created a node
// that has no session.
func isContender(e history.Event) bool {
	name := path.Base(e.Node)
	for _, separator := range separators {
		_, number, found := cutLast(name, separator)
		if !found || len(number) < 10 {
			continue
		}
		if _, err := strconv.ParseInt(number, 10, 32); err == nil {
			return e.Session != 0
		}
	}
	return false
}

// separators end the names of contenders, before the number: of locks, and of writers and readers.
var separators = []string{"lock-", "__lock__", "__WRIT__", readerSeparator}

// readerSeparator is in the names of readers.
const readerSeparator = "__READ__"

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(separator):], true
}
