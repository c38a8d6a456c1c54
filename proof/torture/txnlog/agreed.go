// SPDX-License-Identifier: Apache-2.0

package txnlog

import (
	"cmp"
	"slices"
)

// Agreed merges the logs of all servers of an ensemble. It returns the committed transactions, in commit order, and how many
// transactions were logged and never committed.
//
// An isolated leader logs what it proposes, and may be the only server to do so. Another server then leads, and what it had
// logged when its epoch began decides which earlier transactions are committed. A server that has more truncates its log when
// it rejoins, or gets a snapshot and leaves the rest in its log. So Agreed works backwards: of the last epoch, the transactions
// in the logs of a majority are committed; of each earlier epoch, those with which its successor began.
//
// A leader's printed log shows which epoch it led. It began with the last transaction that it has of earlier epochs, in its log
// or in a snapshot that it was sent. If no server's log shows who led an epoch, Agreed takes the most that a server had
// immediately before the first transaction of that epoch, because no server leads a quorum that has a member with more. A
// server that was away then and got a snapshot may have uncommitted transactions in its log; then this is too much.
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
	until := map[int64]int64{} // by epoch: the last committed transaction
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

// began returns the last transaction with which an epoch began, 0 if there was none.
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
	for i := range servers { // an epoch without committed transactions
		with = max(with, servers[i].before(time))
	}
	return with
}

// before returns the last transaction that a server has of the epochs before one.
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

// beforeFirst returns the last transaction of earlier epochs that a server had immediately before the first transaction of an
// epoch, if it has logged that one.
func (s *Server) beforeFirst(time int64) (had int64, witness bool) {
	for _, t := range s.Txns {
		if t.Zxid == time<<32+1 && had>>32 < time {
			// A snapshot of this epoch itself, from before its first transaction, does not help.
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
