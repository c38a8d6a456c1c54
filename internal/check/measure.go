// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Numbers are what a history comes to, whoever the contenders are: also those are counted whose ensemble's order nobody
// knows. A holder holds from the instant at which it was granted to that at which it was told that it is over, or gave it
// up; it is scheduled when it has not noted a pause. All instants are those of the holders' own clocks.
type Numbers struct {
	Asked    int                   `json:"asked"`
	Grants   int                   `json:"grants"`
	Failures map[string]int        `json:"failures"` // of asking, by what was said
	Ends     map[history.Cause]int `json:"ends"`     // of grants, by what was told; those of crashed holders are missing
	Crashed  int                   `json:"crashed"`  // contenders
	Pauses   int                   `json:"pauses"`   // of contenders

	// Late are holders that were scheduled, and told only when another held the path already; Latest is by how much.
	Late   int             `json:"late_tellings"`
	Latest history.Instant `json:"latest_telling"`
	// Outlived are holders that believed to hold, while they were scheduled, what another had been granted: the late ones,
	// and those that were not scheduled at first and did not find out within T/24 when they were again. Longest is for how
	// long at worst, without the time in which they were not scheduled. See Alone.
	Outlived int             `json:"stale_beliefs"`
	Longest  history.Instant `json:"longest_stale_belief"`
	// Unscheduled are those that another followed while they were not scheduled, and by hand those whose node somebody
	// deleted, or that of who followed them: nobody can tell these in time. Those that were dead by then do not count.
	// ShortestPause is the shortest of the pauses that excuse the former: a process that was stopped for longer than its
	// session lives is excused by what was done to it, and one that merely had to wait for a processor is not.
	Unscheduled   int             `json:"overtaken_while_paused"`
	ShortestPause history.Instant `json:"shortest_pause_of_overtaken"`
	ByHand        int             `json:"overtaken_by_hand"`
	// LateWriters are grants under which a register was written to when a newer one had written, by why nobody could tell
	// the holder in time: see Paused, Removed and Unexcused.
	LateWriters map[Why]int `json:"late_writers"`

	// Partitioned are running holders whose network was partitioned while they held, that lost the lock for it, and after
	// which another client was granted it. What stopped ones wrote is LateWriters[Paused].
	Partitioned int `json:"partitioned_holders"`

	// ToldBefore are the smallest times by which a scheduled holder that lost its claim was told before its session timed
	// out, and before the next one was granted the path; this not where the holder, once told, took its node away itself,
	// or acquired the lock again.
	// Negative ones are late.
	ToldBeforeExpiry Margin `json:"told_before_expiry"`
	ToldBeforeGrant  Margin `json:"told_before_next_grant"`

	// Falling are grants with a token not greater than that of the grant before, of the same path: what RisingTokens finds.
	Falling int `json:"falling_tokens"`
	// Left are contenders' nodes at the end.
	Left int `json:"nodes_left"`
	// Unanswered are attempts of contenders that live, without an answer at the end.
	Unanswered int `json:"unanswered"`
	// LongestWait is the longest that one waited that was granted in the end.
	LongestWait history.Instant `json:"longest_wait"`
	// Unavailable is, by path, the longest time in which somebody asked and nobody held.
	Unavailable map[string]history.Instant `json:"longest_unavailable"`
}

// A Margin is the smallest of several times.
type Margin struct {
	Of    int             `json:"of"`
	Worst history.Instant `json:"worst"`
	Line  int             `json:"line,omitempty"` // of the history, where the holder was told
}

func (m *Margin) take(t history.Instant, line int) {
	if m.Of == 0 || t < m.Worst {
		m.Worst, m.Line = t, line
	}
	m.Of++
}

// Measure counts. A history that is not well formed is counted as far as it makes sense.
func Measure(events []history.Event) Numbers {
	n := Numbers{
		Failures: map[string]int{}, Ends: map[history.Cause]int{}, Unavailable: map[string]history.Instant{}, LateWriters: map[Why]int{},
	}
	s, _ := newStory(events)
	if s == nil {
		return n
	}
	for _, e := range events {
		switch e.Kind {
		case history.Asked:
			n.Asked++
		case history.Failed:
			n.Failures[e.Error]++
		case history.Crashed:
			n.Crashed++
		case history.Paused:
			n.Pauses++
		}
	}
	n.Grants = len(s.holds)
	n.Unanswered = len(unanswered(s))
	for _, h := range s.holds {
		n.hold(s, h)
	}
	for attempt := range s.lateWriters() {
		n.LateWriters[s.why(attempt)]++
	}
	n.Falling = len(tokens(s))
	n.Left = len(leftovers(s))
	n.availability(s)
	return n
}

func (n *Numbers) hold(s *story, h *hold) {
	n.LongestWait = max(n.LongestWait, h.granted.At-h.asked.At)
	if h.told.Kind != "" {
		n.Ends[h.told.Cause]++
	}
	byHand := h.node != nil && h.node.deleted.Cause == history.ByHand
	next, _ := s.following(h)
	if from, to := s.outlived(h, next); to > from {
		n.Outlived++
		n.Longest = max(n.Longest, to-from)
	}
	switch why, _ := s.overtaken(h); why {
	case Removed:
		n.ByHand++
	case Paused:
		n.Unscheduled++
		p, _ := h.pauseAt(next.At, s.run.Grace)
		if lasted := min(p.to, s.until()) - p.from; n.ShortestPause == 0 || lasted < n.ShortestPause {
			n.ShortestPause = lasted
		}
	case Unexcused:
		n.Late++
		n.Latest = max(n.Latest, min(h.when(), s.until())-next.At)
	case ToldAndWrote: // not overtaken
	}
	toAnother := next.Kind != "" && !s.acquiredAgain(h, next)
	if h.partitioned() && toAnother && !h.dead && !byHand && (h.lostNode(history.ByTimeout) || !h.gaveUp()) {
		n.Partitioned++
	}
	if byHand || h.gaveUp() || h.told.Kind == "" {
		return
	}
	if h.node != nil && h.node.deleted.Cause == history.ByTimeout && !h.unscheduled(s, h.node.gone()) {
		n.ToldBeforeExpiry.take(h.node.gone()-h.when(), h.told.Line)
	}
	// A holder that was told, and takes its node away itself, lets the next one in at once.
	ownWill := h.node != nil && h.node.deleted.Cause == history.ByRequest
	if toAnother && !ownWill && !h.unscheduled(s, next.At) {
		n.ToldBeforeGrant.take(next.At-h.when(), h.told.Line)
	}
}

// partitioned reports whether the holder's network was partitioned while it held.
func (h *hold) partitioned() bool {
	return slices.ContainsFunc(h.cuts, func(p pause) bool { return p.from < h.when() && p.to > h.granted.At })
}

// unscheduled says whether the holder was not scheduled at some instant, or had woken right before it.
func (h *hold) unscheduled(s *story, at history.Instant) bool {
	_, paused := h.pausedAt(at, s.run.Grace)
	return paused
}

// following is the next grant of the path, whatever its token. One that stands on a node which was gone by then, deleted by
// hand, is astray: it is no fault of the holder before it. The first such is told, too.
func (s *story) following(h *hold) (next, astray history.Event) {
	for _, other := range s.byPath[h.granted.Path][h.index+1:] {
		if !other.posthumous() || other.node.deleted.Cause != history.ByHand {
			return other.granted, astray
		}
		if astray.Kind == "" {
			astray = other.granted
		}
	}
	return history.Event{}, astray
}

// until is the instant of the last line.
func (s *story) until() history.Instant {
	if s.end.Kind != "" {
		return s.end.At
	}
	if len(s.lines) == 0 {
		return 0
	}
	return s.lines[len(s.lines)-1].At
}

// unanswered are attempts of contenders that have not crashed which came to nothing, not even to a failure.
func unanswered(s *story) []history.Event {
	var open []history.Event
	for _, asked := range s.open {
		if _, crashed := s.crashed[asked.Contender]; !crashed {
			open = append(open, asked)
		}
	}
	slices.SortFunc(open, func(a, b history.Event) int { return cmp.Compare(a.Line, b.Line) })
	return open
}

// availability goes through what happened at each path.
func (n *Numbers) availability(s *story) {
	type change struct {
		at             history.Instant
		asking, holder int
	}
	changes := map[string][]change{}
	add := func(path string, at history.Instant, asking, holder int) {
		changes[path] = append(changes[path], change{at, asking, holder})
	}
	until := s.until()
	gone := func(contender string) history.Instant {
		if at, crashed := s.crashed[contender]; crashed {
			return at
		}
		return until
	}
	for _, e := range s.lines {
		switch {
		case e.Kind == history.Asked && !strings.HasPrefix(e.Text, "try"):
			add(e.Path, e.At, 1, 0)
		case e.Kind == history.Failed && !strings.HasPrefix(s.asked(e).Text, "try"):
			add(e.Path, e.At, -1, 0)
		case e.Kind == history.Granted && !strings.HasPrefix(s.asked(e).Text, "try"):
			add(e.Path, e.At, -1, 0)
		}
	}
	for _, asked := range s.open {
		if !strings.HasPrefix(asked.Text, "try") {
			add(asked.Path, gone(asked.Contender), -1, 0)
		}
	}
	for _, h := range s.holds {
		end := min(h.when(), gone(h.granted.Contender))
		add(h.granted.Path, h.granted.At, 0, 1)
		add(h.granted.Path, max(end, h.granted.At), 0, -1)
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		slices.SortStableFunc(changes[path], func(a, b change) int { return cmp.Compare(a.at, b.at) })
		asking, holding := 0, 0
		var since history.Instant
		waiting := false
		for _, c := range changes[path] {
			if waiting {
				n.Unavailable[path] = max(n.Unavailable[path], c.at-since)
			}
			asking, holding = asking+c.asking, holding+c.holder
			starved := asking > 0 && holding == 0
			if starved && !waiting {
				since = c.at
			}
			waiting = starved
		}
	}
}
