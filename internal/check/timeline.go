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
	state     []history.Event // writes to the ensemble itself, their answers, and claims of epochs

	attempts   map[int]*hold              // all that were requested
	unanswered map[int]history.Event      // requests
	crashed    map[string]history.Instant // contenders that crashed
	byPath     map[string][]*hold         // in the order of their grants
	contenders map[string][]*node         // contender nodes by their parent, in the order of their creation
	byZxid     map[history.ID][]*node     // by the zxid of their creation
	cleared    map[string]int             // see settled
}

// successor returns the first later grant of the hold's path with a greater token.
func (t *timeline) successor(h *hold) history.Event {
	for _, other := range t.byPath[h.granted.Path][h.index+1:] {
		if g := other.granted; g.Line > h.granted.Line && g.Token > h.granted.Token {
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
