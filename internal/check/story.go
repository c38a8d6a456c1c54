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

// never is later than every instant.
const never = history.Instant(math.MaxInt64)

// A node is one node's life, as the ensemble ordered it. A name that recurs is another node.
type node struct {
	created history.Event
	deleted history.Event // its Kind is empty while the node lives
}

// gone is when it was deleted, or a moment later.
func (n *node) gone() history.Instant {
	if n.deleted.Kind == "" {
		return never
	}
	return n.deleted.At
}

// goneFor is when it was deleted at the latest.
func (n *node) goneFor(run history.Event) history.Instant {
	if n.deleted.Kind == "" {
		return never
	}
	return n.deleted.At + run.Blur
}

// A hold is one grant, from its asking to its end. Events that did not come have no Kind.
type hold struct {
	asked, granted, told, releasing, released history.Event

	node   *node           // that it stands on, nil if nobody made it
	next   history.Event   // the first grant of its path after it, of those with a greater token
	index  int             // among the grants of its path
	pauses []pause         // of its contender, in their order
	cuts   []pause         // network partitions of its contender, in their order
	dead   bool            // its contender has crashed, and was not told before
	died   history.Instant // when, if it is dead
	margin history.Instant // by which it is told before its session times out
	run    history.Event   // that it is part of
}

// A pause is a time in which a contender is not scheduled, or its network is partitioned.
type pause struct{ from, to history.Instant }

// A write is what a contender wrote to a register: between which lines, and how the register took it.
type write struct {
	begun int
	at    history.Instant // when it was begun
	wrote history.Event
}

// A story is a history with its events put together.
type story struct {
	run    history.Event
	end    history.Event // no Kind if it did not come
	nodes  []*node       // in the order of their creation
	holds  []*hold       // in the order of their grants
	byTry  map[int]*hold
	writes map[string][]write // by register
	lines  []history.Event    // of what contenders saw
	state  []history.Event    // of what was written to the ensemble itself, and what came of it

	tries   map[int]*hold              // all that were asked for
	open    map[int]history.Event      // the asking of those that were not answered
	crashed map[string]history.Instant // contenders, by when
	byPath  map[string][]*hold         // in the order of their grants
	below   map[string][]*node         // contenders' nodes by their parent, in the order of their creation
	byZxid  map[history.ID][]*node     // by that of their creation
	cleared map[string]int             // see settled
}

// newStory puts the events together. Findings are what does not fit.
func newStory(events []history.Event) (*story, []Finding) {
	s := &story{
		byTry: map[int]*hold{}, writes: map[string][]write{}, tries: map[int]*hold{}, open: map[int]history.Event{},
		crashed: map[string]history.Instant{}, byPath: map[string][]*hold{}, below: map[string][]*node{}, byZxid: map[history.ID][]*node{},
		cleared: map[string]int{},
	}
	var findings []Finding
	amiss := func(text string, events ...history.Event) {
		findings = append(findings, Finding{WellFormed, text, events})
	}
	if len(events) == 0 || events[0].Kind != history.Run {
		amiss("the history does not begin with the run's parameters")
		return nil, findings
	}
	s.run = events[0]
	tries := s.tries
	writing := map[int]history.Event{}
	pauses, partitions := map[string][]pause{}, map[string][]pause{}
	crashed := s.crashed
	var ordered []history.Event
	for _, e := range events[1:] {
		h := tries[e.Attempt]
		if h == nil && e.Attempt != 0 {
			h = &hold{}
			tries[e.Attempt] = h
			if e.Kind != history.Asked {
				amiss("an attempt that nobody began", e)
			}
		}
		if e.Contender != "" {
			s.lines = append(s.lines, e)
		}
		once := func(slot *history.Event, after history.Event) {
			switch {
			case slot.Kind != "":
				amiss("told twice", *slot, e)
			case after.Kind == "":
				amiss("what must come before is missing", e)
			case after.Contender != e.Contender || after.Path != e.Path:
				amiss("one attempt of two contenders, or for two paths", after, e)
			}
			*slot = e
		}
		switch e.Kind {
		case history.Run:
			amiss("a second run", e)
		case history.Asked:
			once(&h.asked, e)
			s.open[e.Attempt] = e
		case history.Granted:
			once(&h.granted, h.asked)
			delete(s.open, e.Attempt)
			h.index = len(s.byPath[e.Path])
			s.byPath[e.Path] = append(s.byPath[e.Path], h)
			s.holds = append(s.holds, h)
			s.byTry[e.Attempt] = h
		case history.Told:
			once(&h.told, h.granted)
		case history.Releasing:
			once(&h.releasing, h.granted)
		case history.Released:
			once(&h.released, h.releasing)
		case history.Writing:
			writing[e.Attempt] = e
		case history.Wrote:
			began := e
			if b, ok := writing[e.Attempt]; ok {
				began = b
				delete(writing, e.Attempt)
			}
			register := e.Path + " " + e.Register + " " + strconv.FormatBool(e.Fenced)
			s.writes[register] = append(s.writes[register], write{began.Line, began.At, e})
			if e.Write != 0 {
				s.state = append(s.state, e)
			}
		case history.Sent, history.Answered, history.Claimed:
			s.state = append(s.state, e)
		case history.Paused, history.Woke, history.Crashed:
			if e.Kind == history.Crashed {
				crashed[e.Contender] = e.At
			}
			pauses[e.Contender] = turnPause(pauses[e.Contender], e)
			if e.Kind == history.Crashed {
				partitions[e.Contender] = turnPause(partitions[e.Contender], e)
			}
		case history.Partitioned, history.Healed:
			partitions[e.Contender] = turnPause(partitions[e.Contender], e)
		case history.Created, history.Deleted:
			ordered = append(ordered, e)
		case history.End:
			s.end = e
		case history.Failed:
			delete(s.open, e.Attempt)
		case history.Ended, history.Note, history.Fault:
		}
	}
	s.live(ordered)
	for _, h := range s.holds {
		h.pauses, h.cuts = pauses[h.granted.Contender], partitions[h.granted.Contender]
		h.died, h.dead = crashed[h.granted.Contender]
		h.dead = h.dead && h.told.Kind == ""
		h.node, h.margin, h.run = s.nodeOf(h.granted), s.margin(), s.run
		h.next = s.successor(h)
	}
	return s, findings
}

// turnPause begins a pause, or ends the one that was begun.
func turnPause(pauses []pause, e history.Event) []pause {
	if e.Kind == history.Paused || e.Kind == history.Partitioned {
		return append(pauses, pause{e.At, never})
	}
	if last := len(pauses) - 1; last >= 0 {
		pauses[last].to = min(pauses[last].to, e.At)
	}
	return pauses
}

// live has the nodes come and go in the ensemble's order.
func (s *story) live(ordered []history.Event) {
	slices.SortStableFunc(ordered, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	living := map[string]*node{}
	for _, e := range ordered {
		if e.Kind == history.Created {
			n := &node{created: e}
			living[e.Node] = n
			s.nodes = append(s.nodes, n)
			s.byZxid[e.Zxid] = append(s.byZxid[e.Zxid], n)
			if isContender(e) {
				s.below[path.Dir(e.Node)] = append(s.below[path.Dir(e.Node)], n)
			}
			continue
		}
		if n := living[e.Node]; n != nil { // else it was there before the run
			n.deleted = e
			delete(living, e.Node)
		}
	}
}

// nodeOf is the node that a grant stands on.
func (s *story) nodeOf(granted history.Event) *node {
	for _, n := range s.byZxid[granted.Token] {
		c := n.created
		if isContender(c) && path.Dir(c.Node) == granted.Path &&
			(granted.Node == "" || granted.Node == c.Node) && (granted.Session == 0 || granted.Session == c.Session) {
			return n
		}
	}
	return nil
}

// successor is the first grant of the hold's path after it, of those with a greater token.
func (s *story) successor(h *hold) history.Event {
	for _, other := range s.byPath[h.granted.Path][h.index+1:] {
		if g := other.granted; g.Line > h.granted.Line && g.Token > h.granted.Token {
			return g
		}
	}
	return history.Event{}
}

// asked is the asking that an event answers.
func (s *story) asked(e history.Event) history.Event {
	if h := s.tries[e.Attempt]; h != nil {
		return h.asked
	}
	return history.Event{}
}

// firstLine is the first line of that instant that tells what a contender saw.
func (s *story) firstLine(at history.Instant) int {
	i, _ := slices.BinarySearchFunc(s.lines, at, func(e history.Event, at history.Instant) int { return cmp.Compare(e.At, at) })
	return s.lines[i].Line
}

// margin is by how much a holder is told before its session times out: T/8 where T is four ticks or more, which is what
// the deadline leaves when the holder's server or the leader is cut off in the worst moment.
func (s *story) margin() history.Instant {
	if s.run.Timeout < 4*s.run.Tick {
		return 0
	}
	return s.run.Timeout / 8
}

// pausedAt is until when the hold's contender was not scheduled, if it was not at that instant, or had woken within grace
// before it.
func (h *hold) pausedAt(at, grace history.Instant) (until history.Instant, paused bool) {
	p, paused := h.pauseAt(at, grace)
	return p.to, paused
}

func (h *hold) pauseAt(at, grace history.Instant) (_ pause, paused bool) {
	// Pauses are in order: those that begin later are cut off, and of the others only the last can reach that far.
	n, _ := slices.BinarySearchFunc(h.pauses, at, func(p pause, at history.Instant) int {
		if p.from <= at {
			return -1
		}
		return 1
	})
	if n == 0 {
		return pause{}, false
	}
	p := h.pauses[n-1]
	return p, p.to == never || at <= p.to+grace
}

// limit is when the holder must have been told: before its node was gone, by a margin where its session has timed out,
// and before another was granted the path.
func (h *hold) limit() history.Instant {
	limit := never
	if h.node != nil {
		limit = h.node.goneFor(h.run)
		if h.node.deleted.Cause == history.ByTimeout {
			limit -= h.margin
		}
	}
	if h.next.Kind != "" {
		limit = min(limit, h.next.At)
	}
	return limit
}

// excuse says why the holder need not have been told by its limit: package recipes promises nothing to those whose node
// was deleted or whose session was ended by hand, to those who were not scheduled then, and to those who were dead.
func (h *hold) excuse() (why string, until history.Instant) {
	if h.node != nil && h.node.deleted.Cause == history.ByHand {
		return "by hand", never
	}
	if h.dead && h.died <= h.limit() {
		return "crashed", never
	}
	if until, paused := h.pausedAt(h.limit(), h.run.Grace); paused {
		return "paused", until
	}
	return "", 0
}

// posthumous says that the grant was told when its node was gone already.
func (h *hold) posthumous() bool { return h.node != nil && h.granted.At > h.node.goneFor(h.run) }

// isContender says whether a node stands in line. The rule of package recipes is stated here anew: a name ends in
// "lock-" or "__lock__" and what ZooKeeper appends to the name of a sequential node. One that has no session was put
// there by the run itself.
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

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(separator):], true
}
