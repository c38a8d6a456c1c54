// SPDX-License-Identifier: Apache-2.0

package txnlog

import (
	"cmp"
	"slices"
)

// Agreed puts what all servers of an ensemble have written down together: what it carried out, in its order, and how many
// transactions were logged and never carried out.
//
// A leader that is cut off logs what it proposes, and may be the only one. Another leads then, and what it had when it began
// is what counts of all that was before; whoever has more takes it back when they meet, or gets a snapshot and leaves the
// rest in its log. So the history is followed from its end: of the last leader's time counts what the logs of a majority
// have, and of the times before what their successor began with.
//
// Who led says so in what it has printed, and what it began with is the last that it has of earlier times, in its log or in a
// snapshot that it was handed. Where nobody says that he led, it is the most that a server had right before the first
// transaction of the successor's time, as nobody leads a quorum of which one has more; one that was away by then and got a
// snapshot may have something in its log that was never carried out, and then this is too much.
//
// Logs must be complete (no autopurge), and read when all servers follow the same leader.
func Agreed(servers []Server) (txns []Txn, dropped int) {
	bodies := map[int64]Txn{}
	votes := map[int64]int{}
	for i := range servers {
		seen := map[int64]bool{}
		for _, t := range servers[i].Txns {
			// A server may log a transaction again when it rejoins, among later ones.
			if !seen[t.Zxid] {
				votes[t.Zxid]++
			}
			seen[t.Zxid], bodies[t.Zxid] = true, t
		}
	}
	var end int64
	for zxid, n := range votes {
		if n > len(servers)/2 {
			end = max(end, zxid)
		}
	}
	until := map[int64]int64{} // by a leader's time: the last transaction that counts
	for end != 0 {
		until[end>>32] = end
		end = began(servers, end>>32)
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

// began is the last transaction of those with which a leader's time began, 0 if there was none.
func began(servers []Server, time int64) (with int64) {
	for i := range servers {
		if slices.Contains(servers[i].Led, time) {
			return servers[i].before(time)
		}
	}
	witnesses := 0
	for i := range servers {
		if had, witness := servers[i].beforeFirst(time); witness {
			with = max(with, had)
			witnesses++
		}
	}
	if witnesses > 0 {
		return with
	}
	for i := range servers { // a time in which nothing was carried out
		with = max(with, servers[i].before(time))
	}
	return with
}

// before is the last that a server has of the times before one.
func (s *Server) before(time int64) (last int64) {
	for _, t := range s.Txns {
		if t.Zxid>>32 < time {
			last = max(last, t.Zxid)
		}
	}
	for _, zxid := range s.Snapshots {
		if zxid>>32 < time {
			last = max(last, zxid)
		}
	}
	return last
}

// beforeFirst is what a server had of earlier times right before the first transaction of one, if it has logged that.
func (s *Server) beforeFirst(time int64) (had int64, witness bool) {
	for _, t := range s.Txns {
		if t.Zxid == time<<32+1 && had>>32 < time {
			// A snapshot of this leader's time itself, from before its first transaction, does not tell.
			for _, zxid := range s.Snapshots {
				if zxid>>32 < time {
					had = max(had, zxid)
				}
			}
			return had, true
		}
		had = max(had, t.Zxid)
	}
	return 0, false
}
