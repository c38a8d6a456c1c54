// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// AssignedByLeader: a record of a member's partitions is written in a term whose node existed, and which was the first in the queue, in
// the ensemble's commit order. Records that an operator wrote are not checked. Nothing is excused, not even a pause.
var AssignedByLeader = register(definition{
	name:    "assigned-by-leader",
	meaning: "only the leader of the moment assigns partitions",
	counts:  "records of members that were written",
	judge:   assignedByLeader,
	tests:   perEvent(history.Assigned),
})

func assignedByLeader(t *timeline, found report) {
	front := t.fronts()
	for _, e := range t.inCommitOrder(history.Assigned) {
		if e.Session == 0 {
			continue
		}
		if n, held := t.holder(e.Token, e.Zxid, e.Path); n == nil {
			found("partitions were assigned by a leader whose node did not exist", e)
		} else if !held {
			found("partitions were assigned by a leader whose node did not exist", n.created, n.deleted, e)
		} else if e.Zxid <= front[n] {
			found("partitions were assigned by a candidate while another was ahead in the queue", n.created, e)
		}
	}
}
