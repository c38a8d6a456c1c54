// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A write is a contender's write to a register.
type write struct {
	started int // line at which it began
	at      history.Instant
	wrote   history.Event // the register's answer
}

// A timeline is a history whose events are grouped into holds, nodes and writes.
type timeline struct {
	run       history.Event
	end       history.Event // no Kind if the history has none
	nodes     []*node       // in the order of their creation
	holds     []*hold       // in the order of their grants
	byAttempt map[int]*hold // those that were granted
	writes    map[string][]write
	observed  []history.Event // the events of contenders
	state     []history.Event // writes to the ensemble itself, their answers, claims of epochs, and values of leaders

	attempts   map[int]*hold              // all that were requested
	unanswered map[int]history.Event      // requests
	crashed    map[string]history.Instant // contenders that crashed
	byPath     map[string][]*hold         // in the order of their grants
	contenders map[string][]*node         // contender nodes by their parent, in the order of their creation
	limits     map[string][]history.Event // of permits, by path
	byZxid     map[history.ID][]*node     // by the zxid of their creation
	cleared    map[string]int             // see settled
	members    []history.Event            // statements of contenders about members of groups
	fenced     []history.Event            // former holders that were fenced
	ticks      []history.Event            // ticks of schedules that were stored or run
	shown      []history.Event            // leaders, to observers
	barriers   []history.Event            // what contenders did at barriers
	doubles    map[string]bool            // paths of double barriers
	rounds     map[string][]*node         // the nodes of members of double barriers by their parent, in the order of their creation
	groups     map[string][]*node         // the nodes of members by their group, in the order of their creation
	pauses     map[string][]interval      // by contender
	together   map[int][]*hold            // the attempts of requests for several locks, by the first one
	statesHeld bool                       // the history states which records of leases are held
}

// successor returns the first later conflicting grant of the hold's path with a greater token.
func (t *timeline) successor(h *hold) history.Event {
	for _, other := range t.byPath[h.granted.Path][h.index+1:] {
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

// nodeOf returns the node of a grant, nil if there is none with that czxid, path and session.
func (t *timeline) nodeOf(granted history.Event) *node {
	for _, n := range t.byZxid[granted.Token] {
		c := n.created
		if isContender(c) && path.Dir(c.Node) == granted.Path &&
			(granted.Node == "" || granted.Node == c.Node) && (granted.Session == 0 || granted.Session == c.Session) {
			return n
		}
	}
	return nil
}
