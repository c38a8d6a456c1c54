// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// KeptLease: an acknowledged lease lasts longer than the validity that its holder was given. Unless its holder releases it or
// an operator deletes it, its node exists for the TTL × 33/32 after the last write of its record, and the validity that the
// holder states at the grant ends within the TTL after that write. A revocation is such a write. A lease that nothing ends
// breaks NothingLeft.
var KeptLease = register(definition{
	name:    "kept-lease",
	meaning: "an acknowledged lease ends by its release, or after its TTL without a renewal, and not before its validity",
	counts:  "leases that ended without a release",
	judge: eachHold(func(_ *timeline, h *hold, found report) {
		if h.isLease() {
			h.checkValidity(found)
			h.checkEnd(found)
		}
	}),
	tests: perHold(func(_ *timeline, h *hold) bool {
		return h.isLease() && h.node.deleted.Kind != "" && !h.releasedBefore(h.node.gone())
	}),
})

// isLease reports whether the node of the hold is a lease.
func (h *hold) isLease() bool { return h.node != nil && h.node.created.Lease != 0 }

// ttl returns the TTL of the lease when it ended, 0 if the hold has no node, or one that is no lease.
func (h *hold) ttl() history.Instant {
	if h.node == nil {
		return 0
	}
	return h.node.lastWrite(h.node.gone()).Lease
}

// releasedBefore reports whether the holder had begun to release the grant at an instant.
func (h *hold) releasedBefore(at history.Instant) bool {
	return h.releasing.Kind != "" && h.releasing.At <= at
}

// slack returns the error of a comparison with the ensemble's instants. They are readings of the leader's wall clock, of limited
// resolution, which may be slewed meanwhile.
func (h *hold) slack(ttl history.Instant) history.Instant { return ttl/512 + 2*h.run.Blur }

// checkValidity checks the validity that the holder stated at the grant. It counts from a request before the write that
// granted the lease, so that it ends within the TTL after that write.
func (h *hold) checkValidity(found report) {
	write := h.node.lastWrite(h.granted.At)
	latest := write.At + write.Lease
	if h.granted.Deadline != 0 && h.granted.Deadline > latest+h.slack(write.Lease) {
		text := fmt.Sprintf("valid until %v, as the answer to its holder states; the TTL after its last write ends at %v", h.granted.Deadline, latest)
		found(text, h.granted, write)
	}
}

// checkEnd checks when the node of a lease that its holder had not released was deleted.
func (h *hold) checkEnd(found report) {
	d := h.node.deleted
	if d.Kind == "" || d.Cause == history.ByOperator || h.releasedBefore(h.node.goneAtLatest(h.run)) {
		return
	}
	write := h.node.lastWrite(d.At)
	if earliest := write.At + write.Lease + write.Lease/32; d.At < earliest-h.slack(write.Lease) {
		text := fmt.Sprintf("deleted %v after its last write; its TTL is %v, and its holder had not released it", d.At-write.At, write.Lease)
		found(text, h.granted, write, d)
	}
}
