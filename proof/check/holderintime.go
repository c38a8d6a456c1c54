// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// HolderInTime: a path that contenders wait for is without a holder for less than T, and less than the lock-delay more if it has
// one. These parts of the time do not count, because no library can shorten them:
//
//   - there is no quorum;
//   - the first contender of the queue had crashed or closed its client, an operator had ended its session, or it was paused or partitioned. That is excused until its session must have
//     ended: T and one and a half ticks after it could last act, or after the leader began to serve, which counts anew then;
//   - the first contender's packets are slow, or only the answers to it are lost: nothing ends its session then;
//   - the first contender of the queue belongs to a session whose contender is not known;
//   - it takes several locks, and waits for another one of them;
//   - the queue is empty, and every contender that waits was paused, partitioned or slow, or takes several locks: it joins one queue
//     after the other.
//
// Paths of which one process alone was granted the lock are not judged: others lose nothing there, and a process that takes a
// thousand locks again goes at its own pace.
//
// What comes after counts: how long a client takes to find a server again, to learn that it is the first, and to prove it.
var HolderInTime = register(definition{
	name:    "holder-in-time",
	meaning: "a path that a contender can be granted has a holder within T",
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
		if limit := t.run.Timeout + t.delayOn(path); counted >= limit {
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

// unexcused returns how much of a time without a holder nothing excuses.
func (t *timeline) unexcused(path string, v interval) (counted history.Instant) {
	q := t.queueIn(path, v)
	for i, from := range q.changes[:len(q.changes)-1] {
		if !q.excuses(from) {
			counted += q.changes[i+1] - from
		}
	}
	return counted
}

// A queueState is what happened to a queue in a time without a holder.
type queueState struct {
	t       *timeline
	nodes   []*node // in the order of their creation
	waits   []wait
	downs   map[string][]interval // when a contender could not act
	changes []history.Instant     // when an excuse can have begun or ended, from the beginning of the time to its end
}

// queueIn returns what happened to a queue in a time.
func (t *timeline) queueIn(path string, v interval) *queueState {
	q := &queueState{t: t, downs: map[string][]interval{}, changes: []history.Instant{v.from, v.to}}
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
	for _, n := range t.contenders[path] {
		if n.created.At < v.to && n.gone() > v.from {
			q.nodes = append(q.nodes, n)
			change(n.created.At)
			change(n.gone())
			contend(t.ownerOf(n))
			for _, ends := range []map[history.ID]history.Instant{t.closed, t.expiring} {
				if at, ends := ends[n.created.Session]; ends {
					change(at)
					change(t.expiry(at))
				}
			}
		}
	}
	for _, w := range t.waiting[path] {
		if w.from < v.to && w.to > v.from {
			q.waits = append(q.waits, w)
			change(w.from)
			change(w.to)
			contend(w.asked.Contender)
		}
	}
	for _, u := range t.unserved {
		change(u.from)
		change(u.to)
	}
	slices.Sort(q.changes)
	q.changes = slices.Compact(q.changes)
	return q
}

// excuses reports whether something excuses that the path has no holder at an instant.
func (q *queueState) excuses(at history.Instant) bool {
	if contains(q.t.unserved, at) {
		return true
	}
	for _, n := range q.nodes {
		if n.created.At <= at && at < n.gone() {
			return q.excusesFirst(n, at)
		}
	}
	return !slices.ContainsFunc(q.waits, func(w wait) bool {
		return w.from <= at && at < w.to && w.asked.Together == 0 && !contains(q.downs[w.asked.Contender], at)
	})
}

// excusesFirst reports whether the contender of a node, the first of the queue, need not have been granted the path at an instant.
func (q *queueState) excusesFirst(n *node, at history.Instant) bool {
	owner := q.t.ownerOf(n)
	if owner == "" || q.isOfSeveral(n, owner) {
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

// isOfSeveral reports whether a node is one of several that a request for several locks takes.
func (q *queueState) isOfSeveral(n *node, owner string) bool {
	if n.hold != nil {
		return n.hold.asked.Together != 0
	}
	return slices.ContainsFunc(q.waits, func(w wait) bool {
		return w.asked.Together != 0 && w.asked.Contender == owner && w.from <= n.created.At && n.created.At <= w.to
	})
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

// expiry returns the instant by which a session that was last heard of at an instant has ended, if it was not heard of again.
func (t *timeline) expiry(heard history.Instant) history.Instant {
	lasts := t.run.Timeout + t.run.Tick*3/2
	ends := heard + lasts
	for _, u := range t.unserved { // a leader that begins to serve counts anew
		if u.to == never && u.from <= ends {
			return never
		}
		if u.to > heard && u.from <= ends {
			ends = max(ends, u.to+lasts)
		}
	}
	return ends
}

// contains reports whether an instant is in one of several intervals.
func contains(intervals []interval, at history.Instant) bool {
	return slices.ContainsFunc(intervals, func(i interval) bool { return i.from <= at && at < i.to })
}
