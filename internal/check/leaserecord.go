// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// leaseRecords checks LeaseRecord.
func leaseRecords(t *timeline) []Finding {
	if !t.statesHeld {
		return nil
	}
	var findings []Finding
	front := t.fronts()
	for _, n := range t.nodes {
		if len(n.renewed) > 0 && isContender(n.created) {
			findings = append(findings, n.checkVersions(front[n])...)
		}
	}
	for _, h := range t.holds {
		if !h.isLease() {
			continue
		}
		granting := func(v history.Event) bool {
			return v.Held && v.Zxid > front[h.node] && v.At <= h.granted.At+2*t.run.Blur
		}
		if !slices.ContainsFunc(h.node.versions(), granting) {
			findings = append(findings, Finding{
				LeaseRecord, "granted before its record was written as held while no contender was ahead",
				[]history.Event{h.node.created, h.granted},
			})
		}
	}
	return findings
}

// versions returns all versions of the node's record.
func (n *node) versions() []history.Event { return append([]history.Event{n.created}, n.renewed...) }

// fronts returns for each contender node the zxid from which on no contender is ahead of it. None is ahead
// later either: each contender joins at the end of its queue.
func (t *timeline) fronts() map[*node]history.ID {
	front := map[*node]history.ID{}
	for _, queue := range t.contenders {
		ahead := history.ID(0)  // zxid of the last deletion of a node before those of the current transaction
		behind := history.ID(0) // the same, these nodes included
		for i, n := range queue {
			if i > 0 && n.created.Zxid > queue[i-1].created.Zxid {
				ahead = behind
			}
			front[n] = ahead
			behind = max(behind, n.goneIn())
		}
	}
	return front
}

// goneIn returns the zxid of the node's deletion, one after all others if it exists at the end.
func (n *node) goneIn() history.ID {
	if n.deleted.Kind == "" {
		return history.ID(never)
	}
	return n.deleted.Zxid
}

// checkVersions checks each version of a record against the one before. From the zxid front on, no contender is ahead.
func (n *node) checkVersions(front history.ID) []Finding {
	var findings []Finding
	report := func(text string, versions ...history.Event) {
		findings = append(findings, Finding{LeaseRecord, text, versions})
	}
	before := n.created
	granted := before.Held && before.Zxid > front
	for _, v := range n.renewed {
		switch {
		case before.Cause == history.Revoked:
			report("a record was written after it had been revoked", before, v)
		case n.created.Lease == 0: // a holder's own record, which an administrator revoked
		case v.Held && v.Zxid <= front:
			report("a record was written as held while a contender was ahead", before, v)
		case v.Held && before.Held && v.Lease < before.Lease:
			report(fmt.Sprintf("the TTL of a held record was lowered from %v to %v", before.Lease, v.Lease), before, v)
		case !v.Held && granted:
			report("a record was written as waiting after it had been written as held while no contender was ahead", before, v)
		}
		granted = granted || v.Held && v.Zxid > front
		before = v
	}
	return findings
}

// releases checks TrueRelease.
func releases(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		if h.notified.Cause == history.GivenUp && (h.releasing.Kind == "" || h.releasing.Line > h.notified.Line) {
			findings = append(findings, Finding{TrueRelease, "released before its contender began to release it", []history.Event{h.granted, h.notified}})
		}
		if h.node == nil || h.released.Kind == "" || h.released.Error != "" || h.node.gone() <= h.released.At+2*t.run.Blur {
			continue
		}
		events := []history.Event{h.granted, h.released}
		if h.node.deleted.Kind != "" {
			events = append(events, h.node.deleted)
		}
		findings = append(findings, Finding{TrueRelease, "a release returned without an error before the node was deleted", events})
	}
	return findings
}
