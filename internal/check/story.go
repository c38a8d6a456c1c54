// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// never is later than every instant of a history.
const never = history.Instant(math.MaxInt64)

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

// A hold is one grant, from its request to its end. Events that the history does not contain have no Kind.
type hold struct {
	asked, granted, notified, releasing, released history.Event

	node       *node           // the node of the grant, nil if no contender created it
	next       history.Event   // the first later grant of the path with a greater token
	index      int             // among the grants of its path
	pauses     []interval      // of its contender, in order
	partitions []interval      // of its contender's network, in order
	crashed    bool            // its contender crashed, and was not notified before
	crashedAt  history.Instant // if crashed is set
	margin     history.Instant // between its notification and the timeout of its session
	run        history.Event   // the Run event of the history
}

// An interval is a time in which a contender is not scheduled, or its network is partitioned.
type interval struct{ from, to history.Instant }

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
	open       map[int]history.Event      // the requests that have no answer
	crashed    map[string]history.Instant // contenders that crashed
	byPath     map[string][]*hold         // in the order of their grants
	contenders map[string][]*node         // contender nodes by their parent, in the order of their creation
	byZxid     map[history.ID][]*node     // by the zxid of their creation
	cleared    map[string]int             // see settled
}

// newTimeline groups the events of a history. It returns a finding for each event that does not fit the others, and no
// timeline if the history does not begin with a Run.
func newTimeline(events []history.Event) (*timeline, []Finding) {
	b := builder{
		timeline: &timeline{
			byAttempt: map[int]*hold{}, writes: map[string][]write{}, attempts: map[int]*hold{}, open: map[int]history.Event{},
			crashed: map[string]history.Instant{}, byPath: map[string][]*hold{}, contenders: map[string][]*node{},
			byZxid: map[history.ID][]*node{}, cleared: map[string]int{},
		},
		writing: map[int]history.Event{}, pauses: map[string][]interval{}, partitions: map[string][]interval{},
	}
	if len(events) == 0 || events[0].Kind != history.Run {
		b.problem("the history does not begin with the run's parameters")
		return nil, b.findings
	}
	b.run = events[0]
	for _, e := range events[1:] {
		b.add(e)
	}
	b.connect()
	return b.timeline, b.findings
}

// A builder makes a timeline of events.
type builder struct {
	*timeline
	findings   []Finding
	writing    map[int]history.Event // writes to registers that have no answer yet, by attempt
	pauses     map[string][]interval
	partitions map[string][]interval
	committed  []history.Event // creations and deletions of nodes
}

// problem records an event that does not fit the others.
func (b *builder) problem(text string, events ...history.Event) {
	b.findings = append(b.findings, Finding{WellFormed, text, events})
}

// add adds the next event.
func (b *builder) add(e history.Event) {
	h := b.attempt(e)
	if e.Contender != "" {
		b.observed = append(b.observed, e)
	}
	switch e.Kind {
	case history.Run:
		b.problem("a second run", e)
	case history.Wrote:
		b.addWrite(e)
	case history.Writing:
		b.writing[e.Attempt] = e
	case history.Sent, history.Answered, history.Claimed:
		b.state = append(b.state, e)
	case history.Paused, history.Woke:
		b.pauses[e.Contender] = beginOrEnd(b.pauses[e.Contender], e)
	case history.Partitioned, history.Healed:
		b.partitions[e.Contender] = beginOrEnd(b.partitions[e.Contender], e)
	case history.Crashed:
		b.crashed[e.Contender] = e.At
		b.pauses[e.Contender] = beginOrEnd(b.pauses[e.Contender], e)
		b.partitions[e.Contender] = beginOrEnd(b.partitions[e.Contender], e)
	case history.Created, history.Deleted:
		b.committed = append(b.committed, e)
	case history.End:
		b.end = e
	case history.Asked, history.Granted, history.Failed, history.Notified, history.Releasing, history.Released:
		b.addToHold(h, e)
	case history.Ended, history.Note, history.Fault:
	}
}

// attempt returns the hold of an event's attempt, nil if the event concerns none. Every attempt must begin with a request.
func (b *builder) attempt(e history.Event) *hold {
	h := b.attempts[e.Attempt]
	if h == nil && e.Attempt != 0 {
		h = &hold{}
		b.attempts[e.Attempt] = h
		if e.Kind != history.Asked {
			b.problem("no request began this attempt", e)
		}
	}
	return h
}

// addToHold adds an event of an attempt to its hold.
func (b *builder) addToHold(h *hold, e history.Event) {
	switch e.Kind {
	case history.Asked:
		b.set(&h.asked, e, e)
		b.open[e.Attempt] = e
	case history.Granted:
		b.set(&h.granted, h.asked, e)
		delete(b.open, e.Attempt)
		h.index = len(b.byPath[e.Path])
		b.byPath[e.Path] = append(b.byPath[e.Path], h)
		b.holds = append(b.holds, h)
		b.byAttempt[e.Attempt] = h
	case history.Notified:
		b.set(&h.notified, h.granted, e)
	case history.Releasing:
		b.set(&h.releasing, h.granted, e)
	case history.Released:
		b.set(&h.released, h.releasing, e)
	case history.Failed:
		delete(b.open, e.Attempt)
	default:
	}
}

// set fills a field of a hold, which happens once in an attempt, and after another event of the same contender and path.
func (b *builder) set(field *history.Event, after, e history.Event) {
	switch {
	case field.Kind != "":
		b.problem("recorded twice", *field, e)
	case after.Kind == "":
		b.problem("the event that must come before is missing", e)
	case after.Contender != e.Contender || after.Path != e.Path:
		b.problem("one attempt has two contenders or two paths", after, e)
	}
	*field = e
}

// addWrite adds the answer of a register.
func (b *builder) addWrite(e history.Event) {
	began := e
	if w, ok := b.writing[e.Attempt]; ok {
		began = w
		delete(b.writing, e.Attempt)
	}
	register := e.Path + " " + e.Register + " " + strconv.FormatBool(e.Fenced)
	b.writes[register] = append(b.writes[register], write{began.Line, began.At, e})
	if e.Write != 0 {
		b.state = append(b.state, e)
	}
}

// connect completes the timeline when all events were added.
func (b *builder) connect() {
	b.addNodes(b.committed)
	for _, h := range b.holds {
		h.pauses, h.partitions = b.pauses[h.granted.Contender], b.partitions[h.granted.Contender]
		h.crashedAt, h.crashed = b.crashed[h.granted.Contender]
		h.crashed = h.crashed && h.notified.Kind == ""
		h.node, h.margin, h.run = b.nodeOf(h.granted), b.timeline.margin(), b.run
		h.next = b.successor(h)
	}
}

// beginOrEnd appends an interval if the event begins one, and ends the last one otherwise.
func beginOrEnd(intervals []interval, e history.Event) []interval {
	if e.Kind == history.Paused || e.Kind == history.Partitioned {
		return append(intervals, interval{e.At, never})
	}
	if last := len(intervals) - 1; last >= 0 {
		intervals[last].to = min(intervals[last].to, e.At)
	}
	return intervals
}

// addNodes applies creations and deletions in the ensemble's commit order.
func (t *timeline) addNodes(committed []history.Event) {
	slices.SortStableFunc(committed, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	active := map[string]*node{}
	for _, e := range committed {
		if e.Kind == history.Created {
			n := &node{created: e}
			active[e.Node] = n
			t.nodes = append(t.nodes, n)
			t.byZxid[e.Zxid] = append(t.byZxid[e.Zxid], n)
			if isContender(e) {
				t.contenders[path.Dir(e.Node)] = append(t.contenders[path.Dir(e.Node)], n)
			}
			continue
		}
		if n := active[e.Node]; n != nil { // otherwise it existed before the run
			n.deleted = e
			delete(active, e.Node)
		}
	}
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

// pausedAt reports whether the hold's contender was paused at an instant, or had woken within grace before it, and returns
// the end of that pause.
func (h *hold) pausedAt(at, grace history.Instant) (until history.Instant, paused bool) {
	p, paused := h.pauseAt(at, grace)
	return p.to, paused
}

// pauseAt is pausedAt, and returns the whole pause.
func (h *hold) pauseAt(at, grace history.Instant) (_ interval, paused bool) {
	// Pauses are in order: skip those that begin later. Of the others, only the last can reach the instant.
	n, _ := slices.BinarySearchFunc(h.pauses, at, func(p interval, at history.Instant) int {
		if p.from <= at {
			return -1
		}
		return 1
	})
	if n == 0 {
		return interval{}, false
	}
	p := h.pauses[n-1]
	return p, p.to == never || at <= p.to+grace
}

// grantedAfterDeletion reports whether the grant was recorded when its node was already gone.
func (h *hold) grantedAfterDeletion() bool {
	return h.node != nil && h.granted.At > h.node.goneAtLatest(h.run)
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
