// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A stay is the part of one member in a round.
type stay struct {
	entered, leaving, left history.Event // no Kind if it did not happen
}

// round returns the node below which the member of the stay has its node.
func (s *stay) round() string { return path.Dir(s.entered.Node) }

// stays returns the stays of all members, in the order of their entries.
func (t *timeline) stays() []*stay {
	var all []*stay
	byNode := map[string]*stay{}
	for _, e := range t.of(history.Entered, history.Leaving, history.Left) {
		switch s := byNode[e.Node]; e.Kind {
		case history.Entered:
			byNode[e.Node] = &stay{entered: e}
			all = append(all, byNode[e.Node])
		case history.Leaving:
			if s != nil {
				s.leaving = e
			}
		case history.Left:
			if s != nil {
				s.left = e
			}
		}
	}
	return all
}

// inAt reports whether the member of a stay is in its round, by its own account, when an event happens. The account of a
// member whose node was deleted before does not count: the barrier promises nothing to it.
func (t *timeline) inAt(s *stay, e history.Event) bool {
	if s.leaving.Kind != "" && s.leaving.Line < e.Line {
		return false
	}
	return !slices.ContainsFunc(t.children[s.round()], func(n *node) bool {
		return n.created.Node == s.entered.Node && n.gone() <= max(e.At, s.entered.At)+t.resolution()
	})
}
