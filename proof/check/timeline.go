// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A write is a contender's write to a register.
type write struct {
	started int // line at which it began
	at      history.Instant
	wrote   history.Event // the register's answer
}

// A timeline is a history whose events are grouped into holds, nodes and writes.
type timeline struct {
	events    []history.Event
	run       history.Event
	end       history.Event // zero if the history has none
	nodes     []*node       // in the order of their creation
	holds     []*hold       // in the order of their grants
	byAttempt map[int]*hold // those that were granted
	writes    map[string][]write
	observed  []history.Event // the events of contenders

	attempts   map[int]*hold                  // all that were requested
	together   map[int][]*hold                // requests for several locks, by their first attempts
	unanswered map[int]history.Event          // requests
	crashed    map[string]history.Instant     // contenders that crashed
	byPath     map[string][]*hold             // in the order of their grants
	rivals     map[string][]*hold             // by resource, in the order of their grants
	marked     map[history.ID]*node           // contenders of permits by the zxid of the first write of their record
	byZxid     map[history.ID][]*node         // by the zxid of their creation
	children   map[string][]*node             // nodes by their parent, in the order of their creation
	contenders map[string][]*node             // of children that are contenders
	groups     map[string]bool                // paths of groups
	doubles    map[string]bool                // paths of double barriers
	cleared    map[string]int                 // see settled
	pauses     map[string][]interval          // by contender
	partitions map[string][]interval          // of networks, by contender
	slow       map[string][]interval          // networks, by contender
	closed     map[history.ID]history.Instant // sessions, when their clients began to close them
	expiring   map[history.ID]history.Instant // sessions, when an operator began to end them
	unserved   []interval                     // without a quorum, in order
	leaders    []interval                     // each ends when a new leader begins to serve, see addLeaders; in order
	observes   bool                           // the history records when there is a quorum
	opened     map[history.ID]string          // contenders by their sessions, as far as they state them themselves
	sessions   map[history.ID]string          // contenders by their sessions, as far as grants state them
	waiting    map[string][]wait              // by path, see unavailable
	statesHeld bool                           // the history states which records of leases are held
}

// of returns the events of some kinds, in the order of the history.
func (t *timeline) of(kinds ...history.Kind) []history.Event {
	var events []history.Event
	for _, e := range t.events {
		if slices.Contains(kinds, e.Kind) {
			events = append(events, e)
		}
	}
	return events
}

// inCommitOrder is of, in the ensemble's commit order.
func (t *timeline) inCommitOrder(kinds ...history.Kind) []history.Event {
	events := t.of(kinds...)
	sortByZxid(events)
	return events
}

// sortByZxid sorts events into the ensemble's commit order.
func sortByZxid(events []history.Event) {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
}

// successor returns the first later conflicting grant of the hold's resource with a greater token.
func (t *timeline) successor(h *hold) history.Event {
	for _, other := range t.rivals[h.resource()][h.index+1:] {
		if g := other.granted; g.Line > h.granted.Line && g.Token > h.granted.Token && h.conflicts(other) {
			return g
		}
	}
	return history.Event{}
}

// asked returns the request that an event answers.
func (t *timeline) asked(e history.Event) history.Event {
	if h := t.attempts[e.Attempt]; h != nil {
		return h.asked
	}
	return history.Event{}
}

// firstLine returns the first line of an instant at which a contender recorded something.
func (t *timeline) firstLine(at history.Instant) int {
	i, _ := slices.BinarySearchFunc(t.observed, at, func(e history.Event, at history.Instant) int { return cmp.Compare(e.At, at) })
	return t.observed[i].Line
}

// margin returns how long before the timeout of its session a holder must be notified: T/8 where T is at least four ticks.
// That is what the deadline leaves when the holder's server or the leader is partitioned at the worst moment.
func (t *timeline) margin() history.Instant {
	if t.run.Timeout < 4*t.run.Tick {
		return 0
	}
	return t.run.Timeout / 8
}

// resolution is how much earlier or later than their lines the ensemble may have committed nodes. Blur is the error of the servers'
// clocks; the comparison of their clocks with the contenders' clock can be as much off.
func (t *timeline) resolution() history.Instant { return 2 * t.run.Blur }

// flight returns the greatest age of an answer. The client leaves a server that answers nothing for 5T/24; an isolated one
// continues to answer reads until the next heartbeat, which is due within T/6.
func (t *timeline) flight() history.Instant {
	if t.run.Flight > 0 {
		return t.run.Flight
	}
	return t.run.Timeout * 5 / 24
}

// nodeOf returns the node of a grant, nil if there is none with that czxid, path and session.
func (t *timeline) nodeOf(granted history.Event) *node {
	for _, n := range t.byZxid[granted.Token] {
		c := n.created
		is := isContender(c) && path.Dir(c.Node) == granted.Path && (granted.Node == "" || granted.Node == c.Node)
		if granted.Number != "" {
			is = c.Node == numberNode(granted)
		}
		if is && (granted.Session == 0 || granted.Session == c.Session) {
			return n
		}
	}
	return nil
}

// contenderOf returns the contender's node of a hold, nil if there is none. That of a slot is the one whose record the grant wrote.
func (t *timeline) contenderOf(h *hold) *node {
	if h.granted.Number == "" {
		return h.node
	}
	if n := t.marked[h.granted.Token]; n != nil && n.created.Node == h.granted.Node {
		return n
	}
	return nil
}

// isOwned reports whether only the session of a node may delete it, and its process leaves none behind: a contender, the number of a
// slot, every child of a group, and every node two levels below a double barrier is.
func (t *timeline) isOwned(n *node) bool {
	parent := path.Dir(n.created.Node)
	return isContender(n.created) || n.isNumber() || t.groups[parent] || t.doubles[path.Dir(parent)]
}

// owned returns the nodes of contenders, of numbers and of members, in the order of their creation.
func (t *timeline) owned() []*node {
	return slices.DeleteFunc(slices.Clone(t.nodes), func(n *node) bool { return !t.isOwned(n) })
}
