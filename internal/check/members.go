// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// isMember reports whether a node is that of a member of a group: every child of a group is.
func (t *timeline) isMember(n *node) bool {
	_, is := t.groups[path.Dir(n.created.Node)]
	return is
}

// isOwned reports whether only the session of a node may delete it, and its process leaves none behind.
func (t *timeline) isOwned(n *node) bool {
	return isContender(n.created) || t.isMember(n) || t.isInRound(n)
}

// memberships checks TrueMembership.
func memberships(t *timeline) []Finding {
	var findings []Finding
	for _, e := range t.members {
		if e.Kind != history.Registered || t.isRegistered(e) {
			continue
		}
		events := []history.Event{e}
		for _, n := range t.groups[e.Path] {
			if n.created.Node == e.Node && n.created.Session == e.Session && n.deleted.Kind != "" {
				events = append(events, n.created, n.deleted)
			}
		}
		findings = append(findings, Finding{TrueMembership, "a member was stated to be registered, and its session had no node", events})
	}
	return findings
}

// isRegistered reports whether the node that a member's client states existed at that instant, or its absence is excused.
func (t *timeline) isRegistered(e history.Event) bool {
	return slices.ContainsFunc(t.groups[e.Path], func(n *node) bool {
		if n.created.Node != e.Node || n.created.Session != e.Session || n.created.At > e.At {
			return false
		}
		gone := n.goneAtLatest(t.run)
		if n.deleted.Cause == history.ByOperator {
			gone += t.flight() + t.run.Timeout/4 // for which a client without a server does not know
		}
		for _, p := range t.pauses[e.Contender] {
			if p.from < e.At && gone > p.from {
				gone = max(gone, p.to+t.run.Grace)
			}
		}
		return e.At <= gone
	})
}

// listings checks TrueListing.
func listings(t *timeline) []Finding {
	var findings []Finding
	newest := map[string]history.Event{} // by contender and path
	for _, e := range t.members {
		if e.Kind != history.Listed {
			continue
		}
		want := t.membersAt(e.Path, e.Zxid)
		if ids := slices.Sorted(strings.FieldsSeq(e.Text)); !slices.Equal(ids, want) {
			findings = append(findings, Finding{TrueListing, fmt.Sprintf("listed %v where the members were %v", ids, want), []history.Event{e}})
		}
		key := e.Contender + " " + e.Path
		if last := newest[key]; e.Zxid != 0 && e.Zxid < last.Zxid {
			findings = append(findings, Finding{TrueListing, "an older listing follows a newer one", []history.Event{last, e}})
		}
		newest[key] = e
	}
	return findings
}

// membersAt returns the ids of a group's members after the transaction with that zxid, sorted.
func (t *timeline) membersAt(group string, zxid history.ID) (ids []string) {
	for _, n := range t.groups[group] {
		if n.created.Zxid <= zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid) {
			ids = append(ids, path.Base(n.created.Node))
		}
	}
	slices.Sort(ids)
	return ids
}
