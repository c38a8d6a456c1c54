// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// grants checks each grant against the nodes that existed when the contender recorded it.
func grants(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		g := h.granted
		if h.node == nil {
			findings = append(findings, Finding{OwnNode, "granted on a node that this session did not create with that zxid", []history.Event{g}})
			continue
		}
		for _, n := range t.predecessors(h) {
			if n.gone() > g.At && (!g.Shared || !h.node.sharesWith(n, g.At)) {
				events := []history.Event{g, n.created}
				if n.deleted.Kind != "" {
					events = append(events, n.deleted)
				}
				findings = append(findings, Finding{FirstInQueue, "granted while another contender was ahead in the queue", events})
			}
		}
		if h.grantedAfterDeletion() && g.At > h.latest(t) {
			findings = append(findings, Finding{
				LivingNode, fmt.Sprintf("granted %v after its node was gone", g.At-h.node.gone()),
				[]history.Event{g, h.node.deleted},
			})
		}
	}
	return findings
}

// sharesWith reports whether the claims of two nodes do not exclude each other at an instant, if the one of n is shared:
// permits share with permits, and readers with readers.
func (n *node) sharesWith(other *node, at history.Instant) bool {
	if n.weight() > 0 {
		return other.weight() > 0
	}
	return other.sharedAt(at)
}

// predecessors returns the nodes before a hold's node in its queue that may have existed when the hold was granted.
func (t *timeline) predecessors(h *hold) []*node {
	queue := t.contenders[h.granted.Path]
	// Neither of two nodes that one transaction created is ahead of the other.
	n, _ := slices.BinarySearchFunc(queue, h.node.created.Zxid, func(n *node, zxid history.ID) int {
		return cmp.Compare(n.created.Zxid, zxid)
	})
	return queue[min(t.settled(h.granted.Path, queue, h.granted.At), n):n]
}

// settled returns how many nodes at the head of a queue were gone at an instant, or fewer. Callers go through grants in the
// order of their lines, whose instants do not fall, so it continues where the last call for the path stopped.
func (t *timeline) settled(path string, queue []*node, at history.Instant) int {
	n := t.cleared[path]
	for n < len(queue) && queue[n].gone() <= at {
		n++
	}
	t.cleared[path] = n
	return n
}

// latest returns the latest instant at which a contender may record a grant whose node is already gone. A node that an
// operator deletes can be gone while the answer that decides the grant is still under way, and a grant that was decided
// before a pause is recorded after it. The answer about a lease can be as old as the lease.
func (h *hold) latest(t *timeline) history.Instant {
	latest := h.node.gone()
	if until, paused := h.pausedAt(latest, t.run.Grace); paused {
		latest = until + t.run.Grace
	}
	if h.node.deleted.Cause == history.ByOperator {
		latest = max(latest, h.node.gone()+max(t.flight(), h.ttl()))
	}
	return latest
}

// flight returns the greatest age of an answer. The client leaves a server that answers nothing for 5T/24; an isolated one
// continues to answer reads until the next heartbeat, which is due within T/6.
func (t *timeline) flight() history.Instant {
	if t.run.Flight > 0 {
		return t.run.Flight
	}
	return t.run.Timeout * 5 / 24
}

// tokens checks RisingTokens, where readers among themselves have no order. It skips a grant that was recorded after its node was gone and is excused for that.
func tokens(t *timeline) []Finding {
	var findings []Finding
	writers, readers := map[string]*hold{}, map[string]*hold{} // by path: those with the greatest tokens so far
	for _, h := range t.holds {
		if why, _ := h.excuse(); h.grantedAfterDeletion() && why != notExcused {
			continue
		}
		path, same := h.granted.Path, writers
		earlier := []*hold{writers[path]}
		if h.granted.Shared {
			same = readers
		} else {
			earlier = append(earlier, readers[path])
		}
		for _, before := range earlier {
			if before != nil && h.granted.Token <= before.granted.Token {
				findings = append(findings, Finding{
					RisingTokens, "the token is not greater than that of the previous grant",
					[]history.Event{before.granted, h.granted},
				})
			}
		}
		if same[path] == nil || !h.granted.Shared || h.granted.Token > same[path].granted.Token {
			same[path] = h
		}
	}
	return findings
}

// deletions checks that sessions delete only their own nodes. A delete can hit a node that has the recurring name of an
// earlier one. The client that created such a node knows this, accepts no grant on it, and deletes it itself, so it is no
// finding. Any session may delete a lease that has expired: whether it had is judged by NotifiedFirst.
func deletions(t *timeline) []Finding {
	var findings []Finding
	for _, n := range t.nodes {
		d := n.deleted
		if d.Cause != history.ByRequest || !t.isOwned(n) || d.Session == n.created.Session || n.created.Lease != 0 {
			continue
		}
		if t.recurs(n) && !slices.ContainsFunc(t.holds, func(h *hold) bool { return h.node == n }) {
			continue
		}
		findings = append(findings, Finding{OwnDelete, "a session deleted the node of another session", []history.Event{n.created, d}})
	}
	return findings
}

// recurs reports whether another node can get the name of this one. Lockkeeper's names are <czxid of the parent, base
// 36>-lock-<number>, with -__WRIT__ or -__READ__ in a read/write lock. They recur if the czxid is that of an earlier parent, or if the number is at the end of the counter's
// range and the name contains no nonce.
func (t *timeline) recurs(n *node) bool {
	name := path.Base(n.created.Node)
	tag, number := name, ""
	for _, separator := range separators {
		if before, after, found := cutLast(name, "-"+separator); found {
			tag, number = before, after
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && (n < 0 || n >= 1<<31-1<<20) && !strings.Contains(tag, "-") {
		return true
	}
	if weight := n.weight(); weight > 0 {
		tag = strings.TrimSuffix(tag, fmt.Sprintf("-w%d", weight))
	}
	czxid, err := strconv.ParseInt(tag, 36, 64)
	return err == nil && slices.ContainsFunc(t.nodes, func(parent *node) bool {
		return parent.created.Node == path.Dir(n.created.Node) && parent.created.Zxid == history.ID(czxid) &&
			parent.deleted.Kind != "" && parent.deleted.Zxid < n.created.Zxid
	})
}

// leftovers checks that no contender node is left at the end of the run.
func leftovers(t *timeline) []Finding {
	var findings []Finding
	if t.end.Kind == "" {
		return nil
	}
	for _, n := range t.nodes {
		if t.isOwned(n) && n.gone() > t.end.At {
			findings = append(findings, Finding{NothingLeft, "a contender's or a member's node is left at the end", []history.Event{n.created, t.end}})
		}
	}
	return findings
}
