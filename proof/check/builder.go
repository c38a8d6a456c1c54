// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"
	"strconv"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// newTimeline groups the events of a history. It returns a finding for each event that does not fit the others, and no
// timeline if the history does not begin with a Run.
func newTimeline(events []history.Event) (*timeline, []Finding) {
	b := builder{
		timeline: &timeline{
			events: events, byAttempt: map[int]*hold{}, writes: map[string][]write{}, attempts: map[int]*hold{}, together: map[int][]*hold{}, unanswered: map[int]history.Event{},
			crashed: map[string]history.Instant{}, byPath: map[string][]*hold{}, rivals: map[string][]*hold{}, marked: map[history.ID]*node{}, byZxid: map[history.ID][]*node{}, cleared: map[string]int{},
			children: map[string][]*node{}, contenders: map[string][]*node{}, groups: map[string]bool{}, doubles: map[string]bool{},
			pauses: map[string][]interval{}, partitions: map[string][]interval{}, slow: map[string][]interval{}, closed: map[history.ID]history.Instant{}, expiring: map[history.ID]history.Instant{}, opened: map[history.ID]string{}, sessions: map[history.ID]string{},
		},
		writing: map[int]history.Event{},
	}
	if len(events) == 0 || events[0].Kind != history.Run {
		b.problem("the history does not begin with the run's parameters")
		return nil, b.findings
	}
	b.run = events[0]
	for _, e := range events[1:] {
		b.checkAttempt(e)
		if e.Contender != "" {
			b.observed = append(b.observed, e)
		}
		if add := adds[e.Kind]; add != nil {
			add(&b, e)
		}
	}
	b.addNodes()
	b.addLeaders()
	b.connect()
	return b.timeline, b.findings
}

// A builder makes a timeline of events.
type builder struct {
	*timeline
	findings []Finding
	writing  map[int]history.Event // writes to registers that have no answer yet, by attempt
}

// adds has what the builder does with events of a kind. Rules get other events from timeline.of.
var adds = map[history.Kind]func(*builder, history.Event){
	history.Run: func(b *builder, e history.Event) { b.problem("a second run", e) },
	history.End: func(b *builder, e history.Event) { b.end = e },

	history.Asked:       (*builder).addRequest,
	history.Granted:     (*builder).addGrant,
	history.Failed:      (*builder).addFailure,
	history.Downgrading: func(b *builder, e history.Event) { h := b.attempts[e.Attempt]; b.set(&h.downgrading, h.granted, e) },
	history.Notified:    func(b *builder, e history.Event) { h := b.attempts[e.Attempt]; b.set(&h.notified, h.granted, e) },
	history.Releasing:   func(b *builder, e history.Event) { h := b.attempts[e.Attempt]; b.set(&h.releasing, h.granted, e) },
	history.Released:    func(b *builder, e history.Event) { h := b.attempts[e.Attempt]; b.set(&h.released, h.releasing, e) },

	history.Writing: func(b *builder, e history.Event) { b.writing[e.Attempt] = e },
	history.Wrote:   (*builder).addWrite,

	history.Registered: func(b *builder, e history.Event) { b.groups[e.Path] = true },
	history.Listed:     func(b *builder, e history.Event) { b.groups[e.Path] = true },
	history.Assigned:   func(b *builder, e history.Event) { b.groups[path.Dir(e.Path)+"/members"] = true },
	history.Entering:   func(b *builder, e history.Event) { b.doubles[e.Path] = true },

	history.Paused:      func(b *builder, e history.Event) { beginOrEnd(b.pauses, e) },
	history.Woke:        func(b *builder, e history.Event) { beginOrEnd(b.pauses, e) },
	history.Partitioned: func(b *builder, e history.Event) { beginOrEnd(b.partitions, e) },
	history.Slowed:      func(b *builder, e history.Event) { beginOrEnd(b.slow, e) },
	history.Healed:      (*builder).addHealed,
	history.Crashed:     (*builder).addCrash,

	history.Opened:   func(b *builder, e history.Event) { b.opened[e.Session] = e.Contender },
	history.Closing:  func(b *builder, e history.Event) { b.closed[e.Session] = e.At },
	history.Expiring: func(b *builder, e history.Event) { b.expiring[e.Session] = e.At },
	history.NoQuorum: func(b *builder, e history.Event) { b.unserved = append(b.unserved, interval{from: e.At, to: never}) },
	history.Quorum:   (*builder).addQuorum,
}

// problem records an event that does not fit the others.
func (b *builder) problem(text string, events ...history.Event) {
	b.findings = append(b.findings, Finding{WellFormed, text, events})
}

// checkAttempt checks that a request began the attempt of an event, if it concerns one.
func (b *builder) checkAttempt(e history.Event) {
	if e.Attempt == 0 || b.attempts[e.Attempt] != nil {
		return
	}
	b.attempts[e.Attempt] = &hold{}
	if e.Kind != history.Asked {
		b.problem("no request began this attempt", e)
	}
}

func (b *builder) addRequest(e history.Event) {
	b.set(&b.attempts[e.Attempt].asked, e, e)
	b.unanswered[e.Attempt] = e
	if e.Together != 0 {
		b.together[e.Together] = append(b.together[e.Together], b.attempts[e.Attempt])
	}
}

func (b *builder) addFailure(e history.Event) {
	b.attempts[e.Attempt].failedAt = e.At
	delete(b.unanswered, e.Attempt)
}

func (b *builder) addGrant(e history.Event) {
	h := b.attempts[e.Attempt]
	b.set(&h.granted, h.asked, e)
	delete(b.unanswered, e.Attempt)
	b.byPath[e.Path] = append(b.byPath[e.Path], h)
	h.index = len(b.rivals[h.resource()])
	b.rivals[h.resource()] = append(b.rivals[h.resource()], h)
	b.holds = append(b.holds, h)
	b.byAttempt[e.Attempt] = h
	if e.Session != 0 {
		b.sessions[e.Session] = e.Contender
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
}

func (b *builder) addHealed(e history.Event) {
	beginOrEnd(b.partitions, e)
	beginOrEnd(b.slow, e)
}

func (b *builder) addCrash(e history.Event) {
	b.crashed[e.Contender] = e.At
	beginOrEnd(b.pauses, e)
	b.addHealed(e)
}

func (b *builder) addQuorum(e history.Event) {
	b.observes = true
	if last := len(b.unserved) - 1; last >= 0 {
		b.unserved[last].to = min(b.unserved[last].to, e.At)
	}
}

// addNodes applies creations, renewals, downgrades and deletions of nodes in the ensemble's commit order.
func (b *builder) addNodes() {
	active := map[string]*node{}
	for _, e := range b.inCommitOrder(history.Created, history.Renewed, history.Downgraded, history.Deleted) {
		b.statesHeld = b.statesHeld || e.Held
		n := active[e.Node]
		switch {
		case e.Kind == history.Created:
			n, parent := &node{created: e}, path.Dir(e.Node)
			active[e.Node] = n
			b.nodes = append(b.nodes, n)
			b.byZxid[e.Zxid] = append(b.byZxid[e.Zxid], n)
			b.children[parent] = append(b.children[parent], n)
			if isContender(e) {
				b.contenders[parent] = append(b.contenders[parent], n)
			}
		case n == nil: // it existed before the run
		case e.Kind == history.Renewed:
			if len(n.renewed) == 0 && n.weight() > 0 {
				b.marked[e.Zxid] = n
			}
			n.renewed = append(n.renewed, e)
		case e.Kind == history.Deleted:
			n.deleted = e
			delete(active, e.Node)
		case n.downgraded.Kind == "": // otherwise it was revoked since
			n.downgraded = e
		}
	}
}

// addLeaders finds new leaders: each has its own epoch, which is the upper half of the zxids. The leader begins to serve at the end of a time
// without a quorum between the last transaction of an epoch and the first one of the next or, if there is no such time, at the latter. Within
// one epoch, a time without a quorum shows no new leader: the observer of the quorum was not scheduled, or its writes were slow.
func (b *builder) addLeaders() {
	var committed []history.Event
	for _, e := range b.events {
		if e.Zxid != 0 && e.Contender == "" {
			committed = append(committed, e)
		}
	}
	sortByZxid(committed)
	for i := 1; i < len(committed); i++ {
		last, first := committed[i-1], committed[i]
		if last.Zxid>>32 == first.Zxid>>32 {
			continue
		}
		found := len(b.leaders)
		for _, u := range b.unserved {
			if u.from < first.At && u.to > last.At {
				b.leaders = append(b.leaders, u)
			}
		}
		if len(b.leaders) == found {
			b.leaders = append(b.leaders, interval{from: first.At, to: first.At})
		}
	}
	slices.SortFunc(b.leaders, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
}

// connect completes the holds.
func (b *builder) connect() {
	b.connectNumbers()
	for _, h := range b.holds {
		h.pauses, h.partitions = b.pauses[h.granted.Contender], b.partitions[h.granted.Contender]
		h.crashedAt, h.crashed = b.crashed[h.granted.Contender]
		h.crashed = h.crashed && h.notified.Kind == ""
		h.node, h.margin, h.run = b.nodeOf(h.granted), b.timeline.margin(), b.run
		h.contender = b.contenderOf(h)
		for _, n := range h.nodes() {
			n.hold = h
		}
		if h.isLease() {
			h.margin = h.ttl() / 8
		}
		h.next = b.successor(h)
	}
}

// connectNumbers attributes a deletion of a number by a former holder to the operator who deleted the former holder's number: until that
// holder is notified, its release deletes the number together with its contender, even if another holder has it by then. If the operator has
// deleted the contender too, it deletes the number alone.
func (b *builder) connectNumbers() {
	byOperator := map[string][]*node{} // numbers, by their names
	for _, n := range b.nodes {
		if !n.isNumber() {
			continue
		}
		own, d := b.marked[n.created.Zxid], n.deleted
		for _, former := range byOperator[n.created.Node] {
			c := b.marked[former.created.Zxid]
			if c == nil || c == own || d.Cause != history.ByRequest || former.created.Session != d.Session {
				continue
			}
			if c.deleted.Zxid == d.Zxid || c.deleted.Cause == history.ByOperator && c.deleted.Zxid < d.Zxid {
				n.deleted.Cause = history.ByOperator
			}
		}
		if n.deleted.Cause == history.ByOperator {
			byOperator[n.created.Node] = append(byOperator[n.created.Node], n)
		}
	}
}
