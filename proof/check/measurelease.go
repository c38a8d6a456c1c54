// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// Leases counts the acknowledged leases of a history, each by its end. A lease that was neither Left nor ended in one of the other
// ways is a finding of KeptLease.
type Leases struct {
	Granted    int `json:"granted"`
	Released   int `json:"released"`    // by the holder
	Expired    int `json:"expired"`     // not written for TTL × 33/32
	Revoked    int `json:"revoked"`     // by an administrator
	ByOperator int `json:"by_operator"` // the node was deleted by an operator
	Left       int `json:"left"`        // at the end

	Renewals int `json:"renewals"` // writes of their records after the grant
	// OutlivedBy is the smallest time by which the node of a lease that expired outlasted its holder's notification. Holders
	// that had crashed or were paused do not count.
	OutlivedBy Margin `json:"outlived_by"`
}

// add counts the lease of a hold, if it is one.
func (l *Leases) add(t *timeline, h *hold) {
	if !h.isLease() {
		return
	}
	l.Granted++
	for _, e := range h.node.renewed {
		if e.At > h.granted.At && e.Cause != history.Revoked {
			l.Renewals++
		}
	}
	switch d := h.node.deleted; {
	case d.Kind == "":
		l.Left++
	case d.Cause == history.ByOperator:
		l.ByOperator++
	case h.endedByHolder() && h.releasedBefore(h.node.goneAtLatest(h.run)):
		l.Released++
	case d.Cause == history.ByRevocation:
		l.Revoked++
	case d.Cause == history.ByTimeout:
		l.Expired++
		if !h.unscheduled(t, d.At) && h.notified.Kind != "" {
			l.OutlivedBy.take(d.At-h.believedUntil(), h.notified.Line)
		}
	case h.releasedBefore(h.node.goneAtLatest(h.run)): // after it was notified of the loss
		l.Released++
	}
}
