// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Numbers summarize a history. They also count contenders on ensembles whose commit order is unknown. A holder holds from
// the instant of its grant to that of its notification or of its own release. It is running unless it has recorded a
// pause. All instants are readings of the holders' own clocks. Documents contain the JSON names, which do not change.
type Numbers struct {
	Asked    int                   `json:"asked"`
	Grants   int                   `json:"grants"`
	Failures map[string]int        `json:"failures"` // of requests, by the text of the error
	Ends     map[history.Cause]int `json:"ends"`     // of grants, by the cause of the notification; without crashed holders
	Crashed  int                   `json:"crashed"`  // contenders
	Pauses   int                   `json:"pauses"`   // of contenders

	// Late counts running holders that were notified only after the path had been granted again. Latest is the longest delay.
	Late   int             `json:"late_tellings"`
	Latest history.Instant `json:"latest_telling"`
	// Outlived counts holders that believed, while they were running, that they held a lock that had been granted to another
	// client: those of Late, and those that were not running at first and did not notice within T/24 after they ran again.
	// Longest is the longest such interval, without the time in which the holder was not running. See Alone.
	Outlived int             `json:"stale_beliefs"`
	Longest  history.Instant `json:"longest_stale_belief"`
	// Unscheduled counts holders that were not running when the path was granted again. ByOperator counts those whose node, or
	// whose successor's node, an operator deleted. Neither can be notified in time. Holders that had crashed by then do not
	// count. ShortestPause is the shortest pause in Unscheduled: the fault excuses a process that was stopped for longer than
	// its session timeout, and not one that merely waited for a processor.
	Unscheduled   int             `json:"overtaken_while_paused"`
	ShortestPause history.Instant `json:"shortest_pause_of_overtaken"`
	ByOperator    int             `json:"overtaken_by_hand"`
	// LateWriters counts grants under which a register received a write after a newer one, by the reason.
	LateWriters map[Why]int `json:"late_writers"`

	// Partitioned counts running holders whose network was partitioned while they held, that lost the lock for that reason,
	// and after which the path was granted to another client. LateWriters[Paused] counts the writes of stopped holders.
	Partitioned int `json:"partitioned_holders"`

	// ToldBeforeExpiry and ToldBeforeGrant are the smallest times by which a running holder that lost its claim was notified
	// before its session timed out, and before the next grant of the path. The latter does not count holders that, once
	// notified, deleted their node themselves or acquired the lock again. A negative time is a delayed notification.
	ToldBeforeExpiry Margin `json:"told_before_expiry"`
	ToldBeforeGrant  Margin `json:"told_before_next_grant"`

	// Falling counts grants whose token is not greater than that of the previous grant of the path: the findings of
	// RisingTokens.
	Falling int `json:"falling_tokens"`
	// Left counts contender nodes at the end.
	Left int `json:"nodes_left"`
	// Unanswered counts the requests of contenders that have not crashed that have no answer at the end.
	Unanswered int `json:"unanswered"`
	// LongestWait is the longest wait of a request that was granted.
	LongestWait history.Instant `json:"longest_wait"`
	// Unavailable is, by path, the longest time in which contenders waited and no contender held.
	Unavailable map[string]history.Instant `json:"longest_unavailable"`
}

// A Margin is the smallest of several times.
type Margin struct {
	Of    int             `json:"of"`
	Worst history.Instant `json:"worst"`
	Line  int             `json:"line,omitempty"` // of the history, at which the holder was notified
}

// take adds a time.
func (m *Margin) take(t history.Instant, line int) {
	if m.Of == 0 || t < m.Worst {
		m.Worst, m.Line = t, line
	}
	m.Of++
}

// Measure returns the numbers of a history. It measures a history that is not well formed as far as possible.
func Measure(events []history.Event) Numbers {
	n := Numbers{
		Failures: map[string]int{}, Ends: map[history.Cause]int{}, Unavailable: map[string]history.Instant{}, LateWriters: map[Why]int{},
	}
	t, _ := newTimeline(events)
	if t == nil {
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
	n.Grants = len(t.holds)
	n.Unanswered = len(openRequests(t))
	for _, h := range t.holds {
		n.hold(t, h)
	}
	for attempt := range t.staleWriters() {
		n.LateWriters[t.why(attempt)]++
	}
	n.Falling = len(tokens(t))
	n.Left = len(leftovers(t))
	n.availability(t)
	return n
}

// hold adds the numbers of one hold.
func (n *Numbers) hold(t *timeline, h *hold) {
	n.LongestWait = max(n.LongestWait, h.granted.At-h.asked.At)
	if h.notified.Kind != "" {
		n.Ends[h.notified.Cause]++
	}
	byOperator := h.node != nil && h.node.deleted.Cause == history.ByOperator
	next, _ := t.following(h)
	if from, to := t.outlived(h, next); to > from {
		n.Outlived++
		n.Longest = max(n.Longest, to-from)
	}
	switch why, _ := t.overtaken(h); why {
	case ByOperator:
		n.ByOperator++
	case Paused:
		n.Unscheduled++
		p, _ := h.pauseAt(next.At, t.run.Grace)
		if lasted := min(p.to, t.lastInstant()) - p.from; n.ShortestPause == 0 || lasted < n.ShortestPause {
			n.ShortestPause = lasted
		}
	case Unexcused:
		n.Late++
		n.Latest = max(n.Latest, min(h.believedUntil(), t.lastInstant())-next.At)
	case NotifiedAndWrote: // not overtaken
	}
	toAnother := next.Kind != "" && !t.acquiredAgain(h, next)
	if h.partitioned() && toAnother && !h.crashed && !byOperator && (h.lostNode(history.ByTimeout) || !h.endedByHolder()) {
		n.Partitioned++
	}
	if byOperator || h.endedByHolder() || h.notified.Kind == "" {
		return
	}
	if h.node != nil && h.node.deleted.Cause == history.ByTimeout && !h.unscheduled(t, h.node.gone()) {
		n.ToldBeforeExpiry.take(h.node.gone()-h.believedUntil(), h.notified.Line)
	}
	// A holder that deletes its node after its notification lets the next contender in immediately.
	deletedItself := h.node != nil && h.node.deleted.Cause == history.ByRequest
	if toAnother && !deletedItself && !h.unscheduled(t, next.At) {
		n.ToldBeforeGrant.take(next.At-h.believedUntil(), h.notified.Line)
	}
}

// partitioned reports whether the holder's network was partitioned while it held.
func (h *hold) partitioned() bool {
	return slices.ContainsFunc(h.partitions, func(p interval) bool { return p.from < h.believedUntil() && p.to > h.granted.At })
}

// unscheduled reports whether the holder was not running at an instant, or had woken within Grace before it.
func (h *hold) unscheduled(t *timeline, at history.Instant) bool {
	_, paused := h.pausedAt(at, t.run.Grace)
	return paused
}

// following returns the next grant of the path, whatever its token. A grant whose node an operator had already deleted is
// astray and does not count against the previous holder: following skips it and returns the first one as astray.
func (t *timeline) following(h *hold) (next, astray history.Event) {
	for _, other := range t.byPath[h.granted.Path][h.index+1:] {
		if !other.grantedAfterDeletion() || other.node.deleted.Cause != history.ByOperator {
			return other.granted, astray
		}
		if astray.Kind == "" {
			astray = other.granted
		}
	}
	return history.Event{}, astray
}

// lastInstant returns the instant of the End, or of the last line of a contender.
func (t *timeline) lastInstant() history.Instant {
	if t.end.Kind != "" {
		return t.end.At
	}
	if len(t.observed) == 0 {
		return 0
	}
	return t.observed[len(t.observed)-1].At
}

// openRequests returns the requests of contenders that have not crashed that have no answer, not even an error.
func openRequests(t *timeline) []history.Event {
	var open []history.Event
	for _, asked := range t.open {
		if _, crashed := t.crashed[asked.Contender]; !crashed {
			open = append(open, asked)
		}
	}
	slices.SortFunc(open, func(a, b history.Event) int { return cmp.Compare(a.Line, b.Line) })
	return open
}

// availability computes Unavailable for each path.
func (n *Numbers) availability(t *timeline) {
	type change struct {
		at              history.Instant
		waiting, holder int
	}
	changes := map[string][]change{}
	add := func(path string, at history.Instant, waiting, holder int) {
		changes[path] = append(changes[path], change{at, waiting, holder})
	}
	until := t.lastInstant()
	gone := func(contender string) history.Instant {
		if at, crashed := t.crashed[contender]; crashed {
			return at
		}
		return until
	}
	for _, e := range t.observed {
		switch {
		case e.Kind == history.Asked && !strings.HasPrefix(e.Text, "try"):
			add(e.Path, e.At, 1, 0)
		case e.Kind == history.Failed && !strings.HasPrefix(t.asked(e).Text, "try"):
			add(e.Path, e.At, -1, 0)
		case e.Kind == history.Granted && !strings.HasPrefix(t.asked(e).Text, "try"):
			add(e.Path, e.At, -1, 0)
		}
	}
	for _, asked := range t.open {
		if !strings.HasPrefix(asked.Text, "try") {
			add(asked.Path, gone(asked.Contender), -1, 0)
		}
	}
	for _, h := range t.holds {
		end := min(h.believedUntil(), gone(h.granted.Contender))
		add(h.granted.Path, h.granted.At, 0, 1)
		add(h.granted.Path, max(end, h.granted.At), 0, -1)
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		slices.SortStableFunc(changes[path], func(a, b change) int { return cmp.Compare(a.at, b.at) })
		waiting, holding := 0, 0
		var since history.Instant
		unavailable := false
		for _, c := range changes[path] {
			if unavailable {
				n.Unavailable[path] = max(n.Unavailable[path], c.at-since)
			}
			waiting, holding = waiting+c.waiting, holding+c.holder
			now := waiting > 0 && holding == 0
			if now && !unavailable {
				since = c.at
			}
			unavailable = now
		}
	}
}
