// SPDX-License-Identifier: Apache-2.0

package txnlog

import (
	"cmp"
	"slices"
)

// Agreed puts the logs of all servers of an ensemble together: what it carried out, in its order, and how many
// transactions were logged and never carried out.
//
// A leader that is cut off logs what it proposes, and may be the only one: another leads then and goes on without it. When
// the two meet again the server takes it back, unless it gets a snapshot instead. So a transaction counts that stands in
// the logs of a majority, or before one that does in the same leader's time. Logs must be complete (no autopurge), and
// read when all servers follow the same leader.
func Agreed(logs [][]Txn) (txns []Txn, dropped int) {
	votes := map[int64]int{}
	bodies := map[int64]Txn{}
	for _, log := range logs {
		seen := map[int64]bool{}
		for _, t := range log {
			if !seen[t.Zxid] {
				votes[t.Zxid]++
			}
			seen[t.Zxid], bodies[t.Zxid] = true, t
		}
	}
	last := map[int64]int64{} // of each leader's time, the last that a majority has
	for zxid, n := range votes {
		if n > len(logs)/2 {
			last[zxid>>32] = max(last[zxid>>32], zxid)
		}
	}
	for zxid, t := range bodies {
		if zxid <= last[zxid>>32] {
			txns = append(txns, t)
		} else {
			dropped++
		}
	}
	slices.SortFunc(txns, func(a, b Txn) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return txns, dropped
}
