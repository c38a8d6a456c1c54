// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// Numbers summarize a history. They also count contenders on ensembles whose commit order is unknown. A holder holds from
// the instant of its grant to its notification or its own release. It is running unless it has recorded a
// pause. All instants are readings of the holders' own clocks. Documents contain the JSON names, which do not change.
type Numbers struct {
	Asked    int                   `json:"asked"`
	Grants   int                   `json:"grants"`
	Failures map[string]int        `json:"failures"` // of requests, by the text of the error
	Ends     map[history.Cause]int `json:"ends"`     // of grants, by the cause of the notification; without crashed holders
	Crashed  int                   `json:"crashed"`  // contenders
	Pauses   int                   `json:"pauses"`   // of contenders

	// LateNotifications counts running holders that were notified only after the path had been granted again. LongestDelay
	// is the longest such delay.
	LateNotifications int             `json:"late_tellings"`
	LongestDelay      history.Instant `json:"latest_telling"`
	// StaleBeliefs counts holders that believed, while they were running, that they held a lock that had been granted to
	// another client: the LateNotifications, and those that were not running at first and did not notice within T/24
	// after they ran again. LongestStaleBelief is the longest such interval, without the time in which the holder was not
	// running. See SoleHolder.
	StaleBeliefs       int             `json:"stale_beliefs"`
	LongestStaleBelief history.Instant `json:"longest_stale_belief"`
	// Unscheduled counts holders that were not running when the path was granted again. ByOperator counts those whose node, or
	// whose successor's node, an operator deleted. Neither can be notified in time. Holders that had crashed by then do not
	// count. ShortestPause is the shortest pause in Unscheduled: the fault excuses a process that was stopped for longer than
	// its session timeout, and not one that merely waited for a processor.
	Unscheduled   int             `json:"overtaken_while_paused"`
	ShortestPause history.Instant `json:"shortest_pause_of_overtaken"`
	ByOperator    int             `json:"overtaken_by_hand"`
	// StaleWriters counts grants under which a register received a write after a newer one, by the reason.
	StaleWriters map[Reason]int `json:"late_writers"`

	// Partitioned counts running holders whose network was partitioned while they held, that lost the lock for that reason,
	// and after which the path was granted to another client. StaleWriters[Paused] counts the writes of stopped holders.
	Partitioned int `json:"partitioned_holders"`

	// NotifiedBeforeExpiry and NotifiedBeforeGrant are the smallest times by which a running holder that lost its claim was
	// notified before its session timed out, and before the next grant of the path. The latter does not count holders that,
	// once notified, deleted their node themselves or acquired the lock again. A negative time is a delayed notification.
	NotifiedBeforeExpiry Margin `json:"told_before_expiry"`
	NotifiedBeforeGrant  Margin `json:"told_before_next_grant"`

	// Leases says what became of the grants that were leases. Their holders are callers of the lock service.
	Leases Leases `json:"leases,omitzero"`

	// Overlaps counts grants that overlap with another contender in ZooKeeper's commit order: those with findings of FirstInQueue or
	// LivingNode.
	Overlaps int `json:"overlaps"`
	// FallingTokens counts grants whose token is not greater than the token of the path's previous grant: the findings of
	// RisingTokens.
	FallingTokens int `json:"falling_tokens"`
	// NodesLeft counts contender nodes at the end.
	NodesLeft int `json:"nodes_left"`
	// Unanswered counts the requests of contenders that have not crashed that have no answer at the end.
	Unanswered int `json:"unanswered"`
	// LongestWait is the longest wait of a request that was granted.
	LongestWait history.Instant `json:"longest_wait"`
	// Unavailable is, by path, the longest time in which contenders waited and no contender held.
	Unavailable map[string]history.Instant `json:"longest_unavailable"`
	// Unexcused is, by path, the most of such a time that nothing excuses: see HolderInTime. It is missing where the history
	// does not record when there was a quorum.
	Unexcused map[string]history.Instant `json:"longest_unexcused,omitempty"`
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

// Measure returns the numbers of a history. A finding of a rule in without is no overlap. It measures a history that is not well formed as far as
// possible.
func Measure(events []history.Event, without ...Rule) Numbers {
	n := Numbers{
		Failures: map[string]int{}, Ends: map[history.Cause]int{}, Unavailable: map[string]history.Instant{}, StaleWriters: map[Reason]int{},
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
	n.Unanswered = len(unansweredRequests(t))
	for _, h := range t.holds {
		n.hold(t, h)
	}
	for _, w := range t.staleWriters() {
		n.StaleWriters[t.reasonOf(w)]++
	}
	n.Overlaps = t.overlaps(without)
	n.FallingTokens = len(t.findings(RisingTokens))
	n.NodesLeft = len(t.findings(NothingLeft))
	n.availability(t)
	return n
}

// overlaps returns the number of grants that break FirstInQueue or LivingNode, unless the rule is in without. A grant has a finding for each
// contender ahead of it.
func (t *timeline) overlaps(without []Rule) int {
	grants := map[int]bool{} // by attempt
	for _, rule := range []Rule{FirstInQueue, LivingNode} {
		if slices.Contains(without, rule) {
			continue
		}
		for _, f := range t.findings(rule) {
			grants[f.Events[0].Attempt] = true
		}
	}
	return len(grants)
}

// hold adds the numbers of one hold.
func (n *Numbers) hold(t *timeline, h *hold) {
	n.LongestWait = max(n.LongestWait, h.granted.At-h.asked.At)
	n.Leases.add(t, h)
	if h.notified.Kind != "" {
		n.Ends[h.notified.Cause]++
	}
	byOperator := h.node != nil && h.node.deleted.Cause == history.ByOperator
	next, _ := t.following(h)
	if from, to := t.staleBelief(h, next); to > from {
		n.StaleBeliefs++
		n.LongestStaleBelief = max(n.LongestStaleBelief, to-from)
	}
	switch why, _ := t.notifiedLate(h); why {
	case ByOperator:
		n.ByOperator++
	case Paused:
		n.Unscheduled++
		p, _ := h.pauseAt(next.At, t.run.Grace)
		if lasted := min(p.to, t.lastInstant()) - p.from; n.ShortestPause == 0 || lasted < n.ShortestPause {
			n.ShortestPause = lasted
		}
	case Unexcused:
		n.LateNotifications++
		n.LongestDelay = max(n.LongestDelay, min(h.believedUntil(), t.lastInstant())-next.At)
	case NotifiedAndWrote: // it was notified in time
	}
	toAnother := next.Kind != "" && !t.acquiredAgain(h, next)
	if h.partitioned() && toAnother && !h.crashed && !byOperator && (h.lostNode(history.ByTimeout) || !h.endedByHolder()) {
		n.Partitioned++
	}
	if byOperator || h.endedByHolder() || h.notified.Kind == "" {
		return
	}
	if h.node != nil && h.node.deleted.Cause == history.ByTimeout && !h.unscheduled(t, h.node.gone()) {
		n.NotifiedBeforeExpiry.take(h.node.gone()-h.believedUntil(), h.notified.Line)
	}
	// A holder that deletes its node after its notification lets the next contender be granted immediately.
	deletedItself := h.node != nil && h.node.deleted.Cause == history.ByRequest
	if toAnother && !deletedItself && !h.unscheduled(t, next.At) {
		n.NotifiedBeforeGrant.take(next.At-h.believedUntil(), h.notified.Line)
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

// following returns the next conflicting grant of the resource, whatever its token. A grant whose node an operator had already deleted is
// astray and does not count against the previous holder: following skips it and returns the first one as astray.
func (t *timeline) following(h *hold) (next, astray history.Event) {
	for _, other := range t.rivals[h.resource()][h.index+1:] {
		if !h.conflicts(other) {
			continue
		}
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

// unansweredRequests returns the requests that have no answer, not even an error. It skips requests of crashed contenders.
func unansweredRequests(t *timeline) []history.Event {
	var unanswered []history.Event
	for _, asked := range t.unanswered {
		if _, crashed := t.crashed[asked.Contender]; !crashed {
			unanswered = append(unanswered, asked)
		}
	}
	slices.SortFunc(unanswered, func(a, b history.Event) int { return cmp.Compare(a.Line, b.Line) })
	return unanswered
}
