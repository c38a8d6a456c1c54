// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A node is one life of a ZooKeeper node, in the ensemble's commit order. A node created again under the same name is
// another one.
type node struct {
	created history.Event
	deleted history.Event // its Kind is empty while the node exists
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

// isContender reports whether a node is a contender. It restates the rule of package recipes independently: a name ends in
// "lock-" or "__lock__" and the number that ZooKeeper appends to the name of a sequential node. The run itself created a
// node that has no session.
func isContender(e history.Event) bool {
	name := path.Base(e.Node)
	for _, separator := range []string{"lock-", "__lock__"} {
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

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(separator):], true
}
