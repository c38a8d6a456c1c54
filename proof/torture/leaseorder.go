// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// leaseCreated completes the creation of a node that does not end with its session. Only the creation of a lease has a session.
func (o *ordering) leaseCreated(e *history.Event, data []byte) {
	r, ok := history.RecordOf(data)
	if !ok || r.Lease == 0 {
		e.Session = 0
		return
	}
	e.Lease, e.Held = r.Lease, r.Held
	o.leases[e.Node] = *e
}

// recordWritten appends the write of a contender's record, which renews a lease, grants permits, or revokes or downgrades the
// contender.
func (o *ordering) recordWritten(e history.Event, data []byte) {
	r, ok := history.RecordOf(data)
	if !ok {
		return
	}
	e = r.Renewed(e)
	if r.Revoked {
		o.revoked[e.Node] = true
	}
	if e.Lease != 0 {
		o.leases[e.Node] = e
	}
	if r.Shared {
		downgraded := e
		downgraded.Kind = history.Downgraded
		o.events = append(o.events, downgraded)
	}
	o.events = append(o.events, e)
}

// whyDeleted returns the cause of a deletion that a client requested: any client of a queue may delete a lease that has
// expired, or a contender that was revoked.
func (o *ordering) whyDeleted(e history.Event) history.Cause {
	last, isLease := o.leases[e.Node]
	delete(o.leases, e.Node)
	switch {
	case o.revoked[e.Node]:
		return history.ByRevocation
	case isLease && e.At-last.At >= last.Lease+last.Lease/32-history.Instant(time.Millisecond): // the logs' resolution
		return history.ByTimeout
	}
	return history.ByRequest
}
