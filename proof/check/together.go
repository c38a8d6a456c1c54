// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// AllOrNothing: a request for several locks is granted all of them, or none. The holder of all is notified within 3T/4 after
// the first of the nodes is gone, whichever lock it is. A request that has failed leaves no node: what its client created
// for it is gone within 8T, which is longer than a session without a server lives, and longer than the runs have no quorum.
// Excused: contenders that were paused, until they wake.
var AllOrNothing = register(definition{
	name:    "all-or-nothing",
	meaning: "a request for several locks is granted all or none, its hold ends with the first loss, and a failed one leaves no node",
	counts:  "requests for several locks that failed, and holds of several locks that lost one",
	judge:   allOrNothing,
	tests: func(t *timeline) (n int) {
		for _, members := range t.together {
			if slices.ContainsFunc(members, func(h *hold) bool {
				return h.failedAt > 0 || h.lostNode(history.ByTimeout) || h.lostNode(history.ByOperator)
			}) {
				n++
			}
		}
		return n
	},
})

func allOrNothing(t *timeline, found report) {
	if len(t.together) == 0 {
		return
	}
	for _, first := range slices.Sorted(maps.Keys(t.together)) {
		members := t.together[first]
		if grantedInPart(members, found) {
			continue
		}
		for _, h := range members {
			t.outlivesNode(h, members, found)
		}
	}
	t.abandonedNodes(found)
}

// grantedInPart reports a request for several locks that was granted some of them and has failed. A contender that crashes
// while it records its grants has not failed.
func grantedInPart(members []*hold, found report) bool {
	var events []history.Event
	granted, failed := false, false
	for _, h := range members {
		granted, failed = granted || h.granted.Kind != "", failed || h.failedAt > 0
		events = append(events, h.asked, h.granted)
	}
	if granted && failed {
		found("the request for several locks was granted some of them, and failed", events...)
	}
	return granted && failed
}

// outlivesNode reports a hold of several locks whose part h was believed to go on for too long after the node of another part
// was gone.
func (t *timeline) outlivesNode(h *hold, members []*hold, found report) {
	for _, other := range members {
		if h.granted.Kind == "" || other == h || other.node == nil || other.node.deleted.Kind == "" {
			continue // NotifiedAtAll is about its own node
		}
		if limit := h.latestNotification(t, other.node.gone()); h.believedUntil() > limit && t.end.At > limit {
			found(fmt.Sprintf("the hold of several locks was not notified by %v that the node of one is gone", limit), h.granted, other.granted, other.node.deleted)
			return
		}
	}
}

// cleanUp returns how long a node can outlast the request that created it and failed: see AllOrNothing.
func (t *timeline) cleanUp() history.Instant { return 8 * t.run.Timeout }

// abandonedNodes reports the nodes that failed requests for several locks have left. A node does not name its request: it can be
// the node of any request of its contender for the path that was under way, so it must be gone when all of these have ended.
func (t *timeline) abandonedNodes(found report) {
	requests := t.requests()
	for _, n := range t.nodes {
		if n.hold != nil || !isContender(n.created) || n.created.Lease != 0 || n.gone() < n.created.At+t.cleanUp() {
			continue
		}
		who := t.sessions[n.created.Session]
		h, ended := lastToEnd(requests[contenderPath{who, path.Dir(n.created.Node)}], n.created.At, t.run.Blur)
		if latest := t.latestCleanUp(who, ended); h != nil && n.gone() > latest && t.end.At > latest {
			found(fmt.Sprintf("a node exists %v after the request for several locks failed for which it was created", t.cleanUp()), h.asked, n.created)
		}
	}
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
