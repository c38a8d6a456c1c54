// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// HolderInTime: a path that contenders wait for is without a holder for less than T and one and a half ticks, in which ZooKeeper ends a
// session that is not heard of, and less than the lock-delay more if it has one. The time counts anew when a new leader begins to serve, as it
// does for all sessions. These parts of the time do not count, because no library can shorten them:
//
//   - there is no quorum, or the observer of the quorum is not scheduled;
//   - the first contender of the queue had crashed or closed its client, an operator had ended its session, or it was paused or partitioned. That is excused until its session must have
//     ended: T and one and a half ticks after it could last act, or after a new leader began to serve, which counts anew then;
//   - the first contender's packets are slow, or only the answers to it are lost: nothing ends its session then;
//   - the first contender of the queue belongs to a session whose contender is not known;
//   - it takes several locks, and waits for a later one of them, in the order of their paths: it has no node there yet, or one behind
//     another contender's;
//   - the queue is empty, and every contender that waits was paused, partitioned or slow, or takes several locks and waits for an earlier one
//     of them: it joins one queue after the other. In any other order, requests could wait for each other.
//
// Paths of which one process alone was granted the lock are not judged: others lose nothing there, and a process that takes a
// thousand locks again goes at its own pace.
//
// What comes after counts: how long a client takes to find a server again, to learn that it is the first, and to prove it.
var HolderInTime = register(definition{
	name:    "holder-in-time",
	meaning: "a path with contenders that can be granted has a holder within T + 1.5 ticks",
	counts:  "times without a holder of at least T, which faults explain",
	judge:   holderInTime,
	tests: func(t *timeline) int {
		n := 0
		t.eachLongUnavailable(func(string, interval) { n++ })
		return n
	},
})

func holderInTime(t *timeline, found report) {
	t.eachLongUnavailable(func(path string, v interval) {
		counted := t.unexcused(path, v)
		if limit := t.sessionEnd() + t.delayOn(path); counted >= limit {
			before, after := t.around(path, v)
			found(fmt.Sprintf("%s had no holder from %v to %v, and nothing explains %v of that, where %v is the limit", path, v.from, v.to,
				counted, limit), before, after)
		}
	})
}

// eachLongUnavailable calls f for each time of at least T in which contenders waited for a path and none held it, if the history
// records when there was a quorum.
func (t *timeline) eachLongUnavailable(f func(path string, v interval)) {
	if !t.observes {
		return
	}
	for path, times := range t.unavailable() {
		if !t.isShared(path) {
			continue
		}
		for _, v := range times {
			if v.to-v.from < t.run.Timeout {
				break
			}
			f(path, v)
		}
	}
}

// isShared reports whether several processes were granted the path.
func (t *timeline) isShared(path string) bool {
	process := func(h *hold) string {
		name, _, _ := strings.Cut(h.granted.Contender, ".")
		return name
	}
	holds := t.byPath[path]
	return slices.ContainsFunc(holds, func(h *hold) bool { return process(h) != process(holds[0]) })
}

// longestUnexcused returns the most of one of several times, the longest of which is first, that nothing excuses.
func (t *timeline) longestUnexcused(path string, times []interval) (longest history.Instant) {
	for _, v := range times {
		if v.to-v.from <= longest {
			break
		}
		longest = max(longest, t.unexcused(path, v))
	}
	return longest
}

// around returns the last grant of a path before a time, and the first one after it.
func (t *timeline) around(path string, v interval) (before, after history.Event) {
	for _, h := range t.byPath[path] {
		if h.granted.At <= v.from {
			before = h.granted
		} else if h.granted.At >= v.to {
			return before, h.granted
		}
	}
	return before, after
}

// delayOn returns the lock-delay of a path.
func (t *timeline) delayOn(path string) history.Instant {
	if t.run.Path != "" && t.run.Path != path {
		return 0
	}
	return t.run.Delay
}

// unexcused returns how much of a time without a holder nothing excuses, at most while one leader served.
func (t *timeline) unexcused(path string, v interval) (most history.Instant) {
	q, counted := t.queueIn(path, v), history.Instant(0)
	for i, from := range q.changes[:len(q.changes)-1] {
		if slices.ContainsFunc(t.leaders, func(l interval) bool { return l.to == from }) {
			counted = 0
		}
		if !contains(t.unserved, from) && !q.excuses(from) {
			counted += q.changes[i+1] - from
			most = max(most, counted)
		}
	}
	return most
}

// A queueState is what happened to a queue in a time without a holder.
type queueState struct {
	t       *timeline
	nodes   []*node // in the order of their creation
	waits   []wait
	others  map[string][]*node    // the same of the other paths of requests for several locks
	downs   map[string][]interval // when a contender could not act
	changes []history.Instant     // when an excuse can have begun or ended, from the beginning of the time to its end
}

// queueIn returns what happened to a queue in a time.
func (t *timeline) queueIn(path string, v interval) *queueState {
	q := &queueState{t: t, others: map[string][]*node{}, downs: map[string][]interval{}, changes: []history.Instant{v.from, v.to}}
	change := func(at history.Instant) {
		if at > v.from && at < v.to {
			q.changes = append(q.changes, at)
		}
	}
	contend := func(contender string) {
		if _, known := q.downs[contender]; known {
			return
		}
		q.downs[contender] = t.downs(contender)
		for _, d := range q.downs[contender] {
			change(d.from)
			change(d.to)
			change(t.expiry(d.from))
		}
	}
	nodesOf := func(path string) (nodes []*node) {
		for _, n := range t.contenders[path] {
			if n.created.At < v.to && n.gone() > v.from {
				nodes = append(nodes, n)
				change(n.created.At)
				change(n.gone())
			}
		}
		return nodes
	}
	q.nodes = nodesOf(path)
	for _, n := range q.nodes {
		contend(t.ownerOf(n))
		for _, ends := range []map[history.ID]history.Instant{t.closed, t.expiring} {
			if at, ends := ends[n.created.Session]; ends {
				change(at)
				change(t.expiry(at))
			}
		}
	}
	for _, w := range t.waiting[path] {
		if w.from < v.to && w.to > v.from {
			q.waits = append(q.waits, w)
			change(w.from)
			change(w.to)
			contend(w.asked.Contender)
			for _, h := range t.together[w.asked.Together] {
				other := h.asked.Path
				if _, known := q.others[other]; !known && other != path {
					q.others[other] = nodesOf(other)
				}
			}
		}
	}
	for _, u := range slices.Concat(t.unserved, t.leaders) {
		change(u.from)
		change(u.to)
	}
	slices.Sort(q.changes)
	q.changes = slices.Compact(q.changes)
	return q
}

// excuses reports whether something excuses that the path has no holder at an instant at which there is a quorum.
func (q *queueState) excuses(at history.Instant) bool {
	for _, n := range q.nodes {
		if n.created.At <= at && at < n.gone() {
			return q.excusesFirst(n, at)
		}
	}
	return !slices.ContainsFunc(q.waits, func(w wait) bool {
		return w.from <= at && at < w.to && !q.waitsForAnother(w, earlier, 0, at) && !contains(q.downs[w.asked.Contender], at)
	})
}

// excusesFirst reports whether the contender of a node, the first of the queue, need not have been granted the path at an instant.
func (q *queueState) excusesFirst(n *node, at history.Instant) bool {
	owner := q.t.ownerOf(n)
	if owner == "" || slices.ContainsFunc(q.waits, func(w wait) bool {
		return w.from <= at && at < w.to && q.t.mayBeOf(n, w, w.asked) && q.waitsForAnother(w, later, n.created.Session, at)
	}) {
		return true
	}
	for _, ends := range []map[history.ID]history.Instant{q.t.closed, q.t.expiring} {
		if from, is := ends[n.created.Session]; is && from <= at && at < q.t.expiry(from) {
			return true
		}
	}
	return slices.ContainsFunc(q.downs[owner], func(d interval) bool {
		return d.from <= at && at < d.to && (d.heard || at < q.t.expiry(d.from))
	})
}

// The locks of a request for several are taken in the order of their paths.
const (
	earlier = -1
	later   = 1
)

// waitsForAnother reports whether a request is one for several locks, and waits at an instant for an earlier or a later one of them.
// session is the session of its nodes, 0 if it is not known.
func (q *queueState) waitsForAnother(w wait, order int, session history.ID, at history.Instant) bool {
	return slices.ContainsFunc(q.t.together[w.asked.Together], func(h *hold) bool {
		return strings.Compare(h.asked.Path, w.asked.Path) == order && !q.isFirst(w, h.asked, session, at)
	})
}

// isFirst reports whether a part of a request for several locks has the first node of its queue at an instant. A node of another request of
// the contender can look like a node of this one: isFirst returns false where more than one does.
func (q *queueState) isFirst(w wait, part history.Event, session history.ID, at history.Instant) bool {
	ahead, own := 0, 0
	for _, n := range q.others[part.Path] {
		switch {
		case at < n.created.At || n.gone() <= at:
		case q.t.mayBeOf(n, w, part) && (session == 0 || session == n.created.Session):
			own++
		case own == 0:
			ahead++
		}
	}
	return ahead == 0 && own == 1
}

// mayBeOf reports whether a node can be one that a part of a request created while it waited.
func (t *timeline) mayBeOf(n *node, w wait, part history.Event) bool {
	if n.hold != nil {
		return n.hold.asked.Attempt == part.Attempt
	}
	return t.ownerOf(n) == part.Contender && w.from <= n.created.At+t.resolution() && n.created.At <= w.to+t.resolution()
}

// downs returns when a contender could not act: it was paused, partitioned or slow, or had crashed.
func (t *timeline) downs(contender string) []interval {
	all := slices.Concat(t.pauses[contender], t.partitions[contender], t.slow[contender])
	if at, crashed := t.crashed[contender]; crashed {
		all = append(all, interval{from: at, to: never})
	}
	return all
}

// ownerOf returns the contender of a node, "" if it is not known.
func (t *timeline) ownerOf(n *node) string {
	if n.hold != nil {
		return n.hold.granted.Contender
	}
	return cmp.Or(t.opened[n.created.Session], t.sessions[n.created.Session])
}

// sessionEnd returns how long ZooKeeper takes at most to end a session that is not heard of.
func (t *timeline) sessionEnd() history.Instant { return t.run.Timeout + t.run.Tick*3/2 }

// expiry returns the instant by which a session that was last heard of at an instant has ended, if it was not heard of again.
func (t *timeline) expiry(heard history.Instant) history.Instant {
	lasts := t.sessionEnd()
	ends := heard + lasts
	for _, l := range t.leaders { // a new leader counts anew
		if l.to == never && l.from <= ends {
			return never
		}
		if l.to > heard && l.from <= ends {
			ends = max(ends, l.to+lasts)
		}
	}
	return ends
}

// contains reports whether an instant is in one of several intervals.
func contains(intervals []interval, at history.Instant) bool {
	return slices.ContainsFunc(intervals, func(i interval) bool { return i.from <= at && at < i.to })
}
