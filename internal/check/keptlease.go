// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// isLease reports whether the node of the hold is a lease.
func (h *hold) isLease() bool { return h.node != nil && h.node.created.Lease != 0 }

// ttl returns the TTL of the lease when it ended, 0 if the node is no lease.
func (h *hold) ttl() history.Instant { return h.node.lastWrite(h.node.gone()).Lease }

// releasedBefore reports whether the holder had begun to release the grant at an instant.
func (h *hold) releasedBefore(at history.Instant) bool {
	return h.releasing.Kind != "" && h.releasing.At <= at
}

// keptLeases checks KeptLease.
func keptLeases(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		if !h.isLease() {
			continue
		}
		if f, broken := h.outlivesItsLease(); broken {
			findings = append(findings, f)
		}
		if f, broken := h.endsEarly(); broken {
			findings = append(findings, f)
		}
	}
	return findings
}

// slack returns the error of a comparison with the ensemble's instants. They are readings of the leader's wall clock, of limited
// resolution, which may be slewed meanwhile.
func (h *hold) slack(ttl history.Instant) history.Instant { return ttl/512 + 2*h.run.Blur }

// outlivesItsLease checks the validity that the holder stated at the grant. It counts from a request before the write that
// granted the lease, so that it ends within the TTL after that write.
func (h *hold) outlivesItsLease() (Finding, bool) {
	if h.granted.Deadline == 0 {
		return Finding{}, false
	}
	write := h.node.lastWrite(h.granted.At)
	latest := write.At + write.Lease
	return Finding{
		KeptLease, fmt.Sprintf("valid until %v, as the answer to its holder states; the TTL after its last write ends at %v", h.granted.Deadline, latest),
		[]history.Event{h.granted, write},
	}, h.granted.Deadline > latest+h.slack(write.Lease)
}

// endsEarly checks when the node of a lease that its holder had not released was deleted.
func (h *hold) endsEarly() (Finding, bool) {
	d := h.node.deleted
	if d.Kind == "" || d.Cause == history.ByOperator || h.releasedBefore(h.node.goneAtLatest(h.run)) {
		return Finding{}, false
	}
	write := h.node.lastWrite(d.At)
	earliest := write.At + write.Lease + write.Lease/32
	return Finding{
		KeptLease, fmt.Sprintf("deleted %v after its last write; its TTL is %v, and its holder had not released it", d.At-write.At, write.Lease),
		[]history.Event{h.granted, write, d},
	}, d.At < earliest-h.slack(write.Lease)
}
