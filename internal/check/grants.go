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

// grants checks each grant against the nodes that lived when the contender was told of it.
func grants(s *story) []Finding {
	var findings []Finding
	for _, h := range s.holds {
		g := h.granted
		if h.node == nil {
			findings = append(findings, Finding{OwnNode, "granted on a node that this session did not make with that zxid", []history.Event{g}})
			continue
		}
		for _, n := range s.aheadOf(h) {
			if n.gone() > g.At {
				events := []history.Event{g, n.created}
				if n.deleted.Kind != "" {
					events = append(events, n.deleted)
				}
				findings = append(findings, Finding{FirstInLine, "granted while somebody was ahead in line", events})
			}
		}
		if h.posthumous() && g.At > h.latest(s) {
			findings = append(findings, Finding{
				LivingNode, fmt.Sprintf("granted %v after its node was gone", g.At-h.node.gone()),
				[]history.Event{g, h.node.deleted},
			})
		}
	}
	return findings
}

// aheadOf are the nodes that were made before the one of a hold in its line, and may have been there when it was granted.
func (s *story) aheadOf(h *hold) []*node {
	line := s.below[h.granted.Path]
	// Of two nodes of one transaction neither is ahead.
	n, _ := slices.BinarySearchFunc(line, h.node.created.Zxid, func(n *node, zxid history.ID) int {
		return cmp.Compare(n.created.Zxid, zxid)
	})
	return line[min(s.settled(h.granted.Path, line, h.granted.At), n):n]
}

// settled is how many nodes at the beginning of a line were gone at that instant, or fewer. It is asked in the order of
// grants, which is that of their lines: as instants do not fall, it need not begin anew.
func (s *story) settled(path string, line []*node, at history.Instant) int {
	n := s.cleared[path]
	for n < len(line) && line[n].gone() <= at {
		n++
	}
	s.cleared[path] = n
	return n
}

// latest is until when a contender may note that it was granted what is gone already. A node that was deleted by hand may
// be gone while the answer is under way that decides for it, and what was decided before a pause is noted after it.
func (h *hold) latest(s *story) history.Instant {
	latest := h.node.gone()
	if until, paused := h.pausedAt(latest, 0); paused {
		latest = until + s.run.Grace
	}
	if h.node.deleted.Cause == history.ByHand {
		latest = max(latest, h.node.gone()+s.flight())
	}
	return latest
}

// flight is how old an answer can be. A server that answers nothing for T/8 is given up; one that is cut off goes on
// answering reads until the next heartbeat, which is T/6.
func (s *story) flight() history.Instant {
	if s.run.Flight > 0 {
		return s.run.Flight
	}
	return s.run.Timeout / 6
}

// tokens checks that they rise. A grant that was told after its node was gone, and is excused for it, may come late.
func tokens(s *story) []Finding {
	var findings []Finding
	last := map[string]*hold{}
	for _, h := range s.holds {
		if why, _ := h.excuse(); h.posthumous() && why != "" {
			continue
		}
		if before := last[h.granted.Path]; before != nil && h.granted.Token <= before.granted.Token {
			findings = append(findings, Finding{
				RisingTokens, "a token that is not greater than that of the grant before",
				[]history.Event{before.granted, h.granted},
			})
		}
		last[h.granted.Path] = h
	}
	return findings
}

// deletions checks that sessions delete their own nodes only. A node whose name can recur may be hit in the place of one
// that had its name before: its maker knows that, is granted nothing with it, and takes it away itself.
func deletions(s *story) []Finding {
	var findings []Finding
	for _, n := range s.nodes {
		d := n.deleted
		if d.Cause != history.ByRequest || !isContender(n.created) || d.Session == n.created.Session {
			continue
		}
		if s.recurs(n) && !slices.ContainsFunc(s.holds, func(h *hold) bool { return h.node == n }) {
			continue
		}
		findings = append(findings, Finding{OwnDelete, "a session deleted the node of another", []history.Event{n.created, d}})
	}
	return findings
}

// recurs says whether a node has a name that another can come to have. Names of ours are <czxid of the parent, base
// 36>-lock-<number>: they recur if they say another life of the parent, or if the number is one of those that the counter
// ends with, and no nonce stands before it.
func (s *story) recurs(n *node) bool {
	name := path.Base(n.created.Node)
	tag, number, _ := strings.Cut(name, "-lock-")
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && (n < 0 || n >= 1<<31-1<<20) && !strings.Contains(tag, "-") {
		return true
	}
	czxid, err := strconv.ParseInt(tag, 36, 64)
	return err == nil && slices.ContainsFunc(s.nodes, func(parent *node) bool {
		return parent.created.Node == path.Dir(n.created.Node) && parent.created.Zxid == history.ID(czxid) &&
			parent.deleted.Kind != "" && parent.deleted.Zxid < n.created.Zxid
	})
}

// leftovers checks that the run ends without nodes of contenders.
func leftovers(s *story) []Finding {
	var findings []Finding
	if s.end.Kind == "" {
		return nil
	}
	for _, n := range s.nodes {
		if isContender(n.created) && n.gone() > s.end.At {
			findings = append(findings, Finding{NothingLeft, "a node is left at the end", []history.Event{n.created, s.end}})
		}
	}
	return findings
}
