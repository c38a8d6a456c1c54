// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// isInRound reports whether a node is that of a member of a double barrier: every node two levels below one is.
func (t *timeline) isInRound(n *node) bool { return t.doubles[path.Dir(path.Dir(n.created.Node))] }

// resolution is how much earlier or later than their lines the ensemble may have committed nodes. Blur is that of the servers'
// clocks; the comparison of their clocks with that of the contenders can be as much off.
func (t *timeline) resolution() history.Instant { return 2 * t.run.Blur }

// openBarriers checks OpenBarrier.
func openBarriers(t *timeline) []Finding {
	var findings []Finding
	began := map[string]history.Event{} // by contender and path
	set := t.barrierNodes()
	for _, e := range t.barriers {
		switch key := e.Contender + " " + e.Path; e.Kind {
		case history.Waiting:
			began[key] = e
		case history.Passed:
			for _, n := range set[e.Path] {
				if n.created.At+t.resolution() < began[key].At && n.gone() > e.At+t.resolution() {
					findings = append(findings, Finding{OpenBarrier, "a barrier was passed that was set all the time", []history.Event{n.created, began[key], e}})
				}
			}
		default:
		}
	}
	return findings
}

// barrierNodes returns the nodes whose existence means that a barrier is set, by its path.
func (t *timeline) barrierNodes() map[string][]*node {
	set := map[string][]*node{}
	for _, e := range t.barriers {
		if e.Kind == history.Passed {
			set[e.Path] = nil
		}
	}
	for _, n := range t.nodes {
		if of, is := set[n.created.Node]; is {
			set[n.created.Node] = append(of, n)
		}
	}
	return set
}

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
	for _, e := range t.barriers {
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
		default:
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
	return !slices.ContainsFunc(t.rounds[s.round()], func(n *node) bool {
		return n.created.Node == s.entered.Node && n.gone() <= max(e.At, s.entered.At)+t.resolution()
	})
}

// entries checks FullRound.
func entries(t *timeline) []Finding {
	var findings []Finding
	members := map[string]int{} // by round
	var in []*stay              // of members that have not left, in any round
	for _, s := range t.stays() {
		e := s.entered
		fail := func(text string, events ...history.Event) {
			findings = append(findings, Finding{FullRound, text, append(events, e)})
		}
		if most := t.mostAt(s.round(), e.At); most < e.Limit {
			fail(fmt.Sprintf("entered when at most %d members of %d had been there at the same time", most, e.Limit))
		}
		if members[s.round()]++; members[s.round()] > e.Limit {
			fail(fmt.Sprintf("member %d of a round of %d", members[s.round()], e.Limit))
		}
		in = slices.DeleteFunc(in, func(other *stay) bool { return !t.inAt(other, e) })
		for _, other := range in {
			if other.entered.Path == e.Path && other.round() != s.round() && t.inAt(s, e) {
				fail("entered while a member of another round was in it", other.entered)
			}
		}
		in = append(in, s)
	}
	return findings
}

// mostAt returns the greatest number of members that had nodes of a round at the same time, until an instant.
func (t *timeline) mostAt(round string, at history.Instant) (most int) {
	for _, last := range t.rounds[round] {
		if last.created.At > at+t.resolution() {
			continue
		}
		there := 0
		for _, n := range t.rounds[round] {
			if n.created.Zxid <= last.created.Zxid && (n.deleted.Kind == "" || n.deleted.Zxid > last.created.Zxid) {
				there++
			}
		}
		most = max(most, there)
	}
	return most
}

// exits checks WholeRound.
func exits(t *timeline) []Finding {
	var findings []Finding
	stays, rounds := t.stays(), map[string][]*stay{}
	for _, s := range stays {
		rounds[s.round()] = append(rounds[s.round()], s)
	}
	for _, s := range stays {
		for _, other := range rounds[s.round()] {
			if s.left.Kind != "" && other != s && t.inAt(other, s.left) {
				findings = append(findings, Finding{WholeRound, "left while another member was in the round", []history.Event{other.entered, s.left}})
			}
		}
	}
	return findings
}
