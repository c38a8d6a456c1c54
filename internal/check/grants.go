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
			if n.gone() > g.At {
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
// before a pause is recorded after it.
func (h *hold) latest(t *timeline) history.Instant {
	latest := h.node.gone()
	if until, paused := h.pausedAt(latest, 0); paused {
		latest = until + t.run.Grace
	}
	if h.node.deleted.Cause == history.ByOperator {
		latest = max(latest, h.node.gone()+t.flight())
	}
	return latest
}

// flight returns the greatest age of an answer. The client leaves a server that answers nothing for T/8; an isolated one
// continues to answer reads until the next heartbeat, which is due within T/6.
func (t *timeline) flight() history.Instant {
	if t.run.Flight > 0 {
		return t.run.Flight
	}
	return t.run.Timeout / 6
}

// tokens checks RisingTokens. It skips a grant that was recorded after its node was gone and is excused for that.
func tokens(t *timeline) []Finding {
	var findings []Finding
	last := map[string]*hold{}
	for _, h := range t.holds {
		if why, _ := h.excuse(); h.grantedAfterDeletion() && why != notExcused {
			continue
		}
		if before := last[h.granted.Path]; before != nil && h.granted.Token <= before.granted.Token {
			findings = append(findings, Finding{
				RisingTokens, "the token is not greater than that of the previous grant",
				[]history.Event{before.granted, h.granted},
			})
		}
		last[h.granted.Path] = h
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
		if d.Cause != history.ByRequest || !isContender(n.created) || d.Session == n.created.Session || n.created.Lease != 0 {
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
// 36>-lock-<number>. They recur if the czxid is that of an earlier parent, or if the number is at the end of the counter's
// range and the name contains no nonce.
func (t *timeline) recurs(n *node) bool {
	name := path.Base(n.created.Node)
	tag, number, _ := strings.Cut(name, "-lock-")
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && (n < 0 || n >= 1<<31-1<<20) && !strings.Contains(tag, "-") {
		return true
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
		if isContender(n.created) && n.gone() > t.end.At {
			findings = append(findings, Finding{NothingLeft, "a contender node is left at the end", []history.Event{n.created, t.end}})
		}
	}
	return findings
}
