// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"strconv"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// weight returns the number of permits that a contender's node claims, 0 if it claims the queue as a whole. It restates the rule
// of package recipes independently: the name ends in -w<weight>-lock- and the number.
func (n *node) weight() int {
	before, _, found := cutLast(path.Base(n.created.Node), "-lock-")
	if !found {
		return 0
	}
	_, digits, found := cutLast(before, "-w")
	weight, err := strconv.Atoi(digits)
	if !found || err != nil {
		return 0
	}
	return weight
}

// permits checks PermitsWithinLimit.
func permits(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		if h.node == nil || h.node.weight() == 0 {
			continue
		}
		marked := h.node.firstWrite(h.granted.At)
		if marked.Kind == "" {
			findings = append(findings, Finding{PermitsWithinLimit, "granted without the write that grants permits", []history.Event{h.granted}})
			continue
		}
		limit := t.limitAt(h.granted.Path, marked.Zxid)
		events, sum := []history.Event{h.granted, marked, limit}, h.node.weight()
		for _, n := range t.contenders[h.granted.Path] {
			if n.created.Zxid < h.node.created.Zxid && (n.deleted.Kind == "" || n.deleted.Zxid > marked.Zxid) {
				sum += n.permits(limit.Limit)
				events = append(events, n.created)
			}
		}
		if sum > limit.Limit {
			findings = append(findings, Finding{
				PermitsWithinLimit, fmt.Sprintf("granted as the last of %d permits, and the limit is %d", sum, limit.Limit), events,
			})
		}
	}
	return findings
}

// permits returns how many permits the contender counts for.
func (n *node) permits(limit int) int {
	if weight := n.weight(); weight > 0 {
		return weight
	}
	return limit
}

// firstWrite returns the first write of the node's record after its creation, no Kind if there was none until an instant.
func (n *node) firstWrite(until history.Instant) history.Event {
	if len(n.renewed) == 0 || n.renewed[0].At > until {
		return history.Event{}
	}
	return n.renewed[0]
}

// limitAt returns the last limit of a path that was committed before a transaction.
func (t *timeline) limitAt(path string, zxid history.ID) (last history.Event) {
	for _, e := range t.limits[path] {
		if e.Zxid < zxid && e.Zxid > last.Zxid {
			last = e
		}
	}
	return last
}
