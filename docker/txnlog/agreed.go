// SPDX-License-Identifier: Apache-2.0

package txnlog

import (
	"cmp"
	"slices"
)

// Agreed puts the logs of all servers of an ensemble together: what it carried out, in its order, and how many
// transactions were logged and never carried out.
//
// A leader that is cut off logs what it proposes, and may be the only one. Another leads then, and what it had when it began
// is what counts of all that was before; whoever has more takes it back when they meet, or gets a snapshot and leaves the
// rest in its log. So the history is followed from its end: of the last leader's time counts what the logs of a majority
// have, and of the times before what their successor began with. That is the most that a server had right before the first
// transaction of the successor's time, as nobody leads a quorum of which one has more.
//
// A server that was handed a snapshot has what is in it, and none of it in its log. So the zxids of each server's snapshots
// are wanted, too, in the order of logs: what a leader's time began with may be known from nothing else.
//
// Logs must be complete (no autopurge), and read when all servers follow the same leader.
func Agreed(logs [][]Txn, snapshots [][]int64) (txns []Txn, dropped int) {
	bodies := map[int64]Txn{}
	votes := map[int64]int{}
	begins := map[int64]int64{} // by a leader's time: the last transaction before its first
	for server, log := range logs {
		seen := map[int64]bool{}
		var last int64
		for _, t := range log {
			// A server may log a transaction again when it rejoins, among later ones.
			if !seen[t.Zxid] {
				votes[t.Zxid]++
			}
			seen[t.Zxid], bodies[t.Zxid] = true, t
			if first := t.Zxid&counter == 1; first && last>>32 < t.Zxid>>32 {
				had := last
				for _, zxid := range snapshots[server] {
					// One of this leader's time itself, from before its first transaction, does not tell.
					if zxid>>32 < t.Zxid>>32 {
						had = max(had, zxid)
					}
				}
				begins[t.Zxid>>32] = max(begins[t.Zxid>>32], had)
			}
			last = max(last, t.Zxid)
		}
	}
	var end int64
	for zxid, n := range votes {
		if n > len(logs)/2 {
			end = max(end, zxid)
		}
	}
	until := map[int64]int64{} // by a leader's time: the last transaction that counts
	for end != 0 {
		until[end>>32] = end
		end = begins[end>>32]
	}
	for zxid, t := range bodies {
		if zxid <= until[zxid>>32] {
			txns = append(txns, t)
		} else {
			dropped++
		}
	}
	slices.SortFunc(txns, func(a, b Txn) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return txns, dropped
}

// counter are the bits of a zxid in which transactions of one leader's time are counted, from 1.
const counter = 1<<32 - 1
