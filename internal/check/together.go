// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// together checks AllOrNothing.
func together(t *timeline) []Finding {
	if len(t.together) == 0 {
		return nil
	}
	var findings []Finding
	for _, first := range slices.Sorted(maps.Keys(t.together)) {
		members := t.together[first]
		if f, broken := grantedInPart(members); broken {
			findings = append(findings, f)
			continue
		}
		for _, h := range members {
			if f, broken := t.outlivesNode(h, members); broken {
				findings = append(findings, f)
			}
		}
	}
	return append(findings, t.abandonedNodes()...)
}

// grantedInPart finds a request for several locks that was granted some of them and has failed. A contender that crashes while
// it records its grants has not failed.
func grantedInPart(members []*hold) (f Finding, broken bool) {
	f = Finding{Rule: AllOrNothing, Text: "the request for several locks was granted some of them, and failed"}
	failed := false
	for _, h := range members {
		failed = failed || h.failedAt > 0
		if f.Events = append(f.Events, h.asked); h.granted.Kind != "" {
			f.Events = append(f.Events, h.granted)
			broken = true
		}
	}
	return f, broken && failed
}

// outlivesNode finds a hold of several locks whose part h was believed to go on for too long after the node of another part
// was gone.
func (t *timeline) outlivesNode(h *hold, members []*hold) (Finding, bool) {
	if h.granted.Kind == "" {
		return Finding{}, false
	}
	for _, other := range members {
		if other == h || other.node == nil || other.node.deleted.Kind == "" {
			continue // NotifiedAtAll is about its own node
		}
		if limit := h.latestNotification(t, other.node.gone()); h.believedUntil() > limit && t.endedAt() > limit {
			return Finding{
				AllOrNothing, fmt.Sprintf("the hold of several locks was not notified by %v that the node of one is gone", limit),
				[]history.Event{h.granted, other.granted, other.node.deleted},
			}, true
		}
	}
	return Finding{}, false
}

// cleanUp returns how long a node can outlast the request that created it and failed: see AllOrNothing.
func (t *timeline) cleanUp() history.Instant { return 8 * t.run.Timeout }

// abandonedNodes finds the nodes that failed requests for several locks have left. A node does not name its request: it can be
// that of any request of its contender for the path that was under way, so it must be gone when all of these have ended.
func (t *timeline) abandonedNodes() []Finding {
	requests := t.requests()
	contenderOf, granted := map[history.ID]string{}, map[*node]bool{}
	for _, h := range t.holds {
		granted[h.node] = true
		if h.granted.Session != 0 {
			contenderOf[h.granted.Session] = h.granted.Contender
		}
	}
	var findings []Finding
	for path := range t.contenders {
		for _, n := range t.contenders[path] {
			if granted[n] || n.created.Lease != 0 || n.gone() < n.created.At+t.cleanUp() {
				continue
			}
			who := contenderOf[n.created.Session]
			if h, ended := lastToEnd(requests[contenderPath{who, path}], n.created.At, t.run.Blur); h != nil && n.gone() > t.latestCleanUp(who, ended) &&
				t.endedAt() > t.latestCleanUp(who, ended) {
				findings = append(findings, Finding{
					AllOrNothing, fmt.Sprintf("a node exists %v after the request for several locks failed for which it was created", t.cleanUp()),
					[]history.Event{h.asked, n.created},
				})
			}
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return a.Events[0].Line - b.Events[0].Line })
	return findings
}

// A contenderPath is a contender and a path that it requests.
type contenderPath struct{ contender, path string }

// requests returns all requests for paths that contenders have requested together with others.
func (t *timeline) requests() map[contenderPath][]*hold {
	of := map[contenderPath][]*hold{}
	for _, members := range t.together {
		for _, h := range members {
			of[contenderPath{h.asked.Contender, h.asked.Path}] = nil
		}
	}
	for _, h := range t.attempts {
		key := contenderPath{h.asked.Contender, h.asked.Path}
		if _, is := of[key]; is {
			of[key] = append(of[key], h)
		}
	}
	return of
}

// lastToEnd returns a failed request for several locks that was under way at an instant, and when the last of all requests that
// were had been answered. It returns nil if there is none, or if one was never answered.
func lastToEnd(requests []*hold, at, blur history.Instant) (failed *hold, ended history.Instant) {
	for _, h := range requests {
		answered := h.granted.At
		if h.failedAt > 0 {
			answered = h.failedAt
		}
		switch {
		case h.asked.At > at+blur, answered != 0 && answered < at:
			continue // it was not under way
		case answered == 0:
			return nil, 0
		case h.failedAt > 0 && h.asked.Together != 0:
			failed = h
		}
		ended = max(ended, answered)
	}
	return failed, ended
}

// latestCleanUp returns the instant by which the nodes of a request that ended at an instant are gone.
func (t *timeline) latestCleanUp(contender string, ended history.Instant) history.Instant {
	latest := ended + t.cleanUp()
	for _, p := range t.pauses[contender] {
		if p.from < latest && p.to > ended && p.to != never {
			latest = max(latest, p.to+t.cleanUp())
		}
	}
	return latest
}

// countTogether counts the tests of AllOrNothing.
func (t *timeline) countTogether() (n int) {
	for _, members := range t.together {
		if slices.ContainsFunc(members, func(h *hold) bool {
			return h.failedAt > 0 || h.lostNode(history.ByTimeout) || h.lostNode(history.ByOperator)
		}) {
			n++
		}
	}
	return n
}
