// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"
	"strconv"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// newTimeline groups the events of a history. It returns a finding for each event that does not fit the others, and no
// timeline if the history does not begin with a Run.
func newTimeline(events []history.Event) (*timeline, []Finding) {
	b := builder{
		timeline: &timeline{
			byAttempt: map[int]*hold{}, writes: map[string][]write{}, attempts: map[int]*hold{}, unanswered: map[int]history.Event{},
			crashed: map[string]history.Instant{}, byPath: map[string][]*hold{}, contenders: map[string][]*node{},
			byZxid: map[history.ID][]*node{}, cleared: map[string]int{},
			groups: map[string][]*node{}, doubles: map[string]bool{}, rounds: map[string][]*node{}, limits: map[string][]history.Event{}, pauses: map[string][]interval{},
			together: map[int][]*hold{},
		},
		writing: map[int]history.Event{}, partitions: map[string][]interval{},
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
	partitions map[string][]interval
	committed  []history.Event // creations, renewals and deletions of nodes
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
	case history.Sent, history.Answered, history.Claimed, history.Proclaimed:
		b.state = append(b.state, e)
	case history.Registered, history.Listed:
		b.members = append(b.members, e)
		b.groups[e.Path] = nil
	case history.Fenced:
		b.fenced = append(b.fenced, e)
	case history.Observed:
		b.shown = append(b.shown, e)
	case history.Stored, history.Ran:
		b.ticks = append(b.ticks, e)
	case history.Entering:
		b.doubles[e.Path] = true
	case history.Waiting, history.Passed, history.Entered, history.Leaving, history.Left:
		b.barriers = append(b.barriers, e)
	case history.Paused, history.Woke:
		b.pauses[e.Contender] = beginOrEnd(b.pauses[e.Contender], e)
	case history.Partitioned, history.Healed:
		b.partitions[e.Contender] = beginOrEnd(b.partitions[e.Contender], e)
	case history.Crashed:
		b.crashed[e.Contender] = e.At
		b.pauses[e.Contender] = beginOrEnd(b.pauses[e.Contender], e)
		b.partitions[e.Contender] = beginOrEnd(b.partitions[e.Contender], e)
	case history.Created, history.Renewed, history.Downgraded, history.Deleted:
		b.committed = append(b.committed, e)
		b.statesHeld = b.statesHeld || e.Held
	case history.Limited:
		b.limits[e.Path] = append(b.limits[e.Path], e)
	case history.End:
		b.end = e
	case history.Asked, history.Granted, history.Failed, history.Downgrading, history.Notified, history.Releasing, history.Released:
		b.addToHold(h, e)
	case history.Ended, history.HandedOver, history.Note, history.Fault:
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
		b.unanswered[e.Attempt] = e
		if e.Together != 0 {
			b.together[e.Together] = append(b.together[e.Together], h)
		}
	case history.Granted:
		b.set(&h.granted, h.asked, e)
		delete(b.unanswered, e.Attempt)
		h.index = len(b.byPath[e.Path])
		b.byPath[e.Path] = append(b.byPath[e.Path], h)
		b.holds = append(b.holds, h)
		b.byAttempt[e.Attempt] = h
	case history.Downgrading:
		b.set(&h.downgrading, h.granted, e)
	case history.Notified:
		b.set(&h.notified, h.granted, e)
	case history.Releasing:
		b.set(&h.releasing, h.granted, e)
	case history.Released:
		b.set(&h.released, h.releasing, e)
	case history.Failed:
		h.failedAt = e.At
		delete(b.unanswered, e.Attempt)
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
		if h.isLease() {
			h.margin = h.ttl() / 8
		}
		h.next = b.successor(h)
	}
}

// addNodes applies creations, renewals and deletions of nodes in the ensemble's commit order.
func (t *timeline) addNodes(committed []history.Event) {
	slices.SortStableFunc(committed, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	active := map[string]*node{}
	for _, e := range committed {
		if e.Kind == history.Created {
			n := &node{created: e}
			active[e.Node] = n
			t.nodes = append(t.nodes, n)
			t.byZxid[e.Zxid] = append(t.byZxid[e.Zxid], n)
			if of, isGroup := t.groups[path.Dir(e.Node)]; isGroup {
				t.groups[path.Dir(e.Node)] = append(of, n)
			}
			if t.isInRound(n) {
				t.rounds[path.Dir(e.Node)] = append(t.rounds[path.Dir(e.Node)], n)
			}
			if isContender(e) {
				t.contenders[path.Dir(e.Node)] = append(t.contenders[path.Dir(e.Node)], n)
			}
			continue
		}
		n := active[e.Node]
		switch {
		case n == nil: // it existed before the run
		case e.Kind == history.Downgraded:
			if n.downgraded.Kind == "" { // otherwise it was revoked since
				n.downgraded = e
			}
		case e.Kind == history.Renewed:
			n.renewed = append(n.renewed, e)
		default:
			n.deleted = e
			delete(active, e.Node)
		}
	}
}
