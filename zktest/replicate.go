// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// The callers of all functions in this file hold the ensemble's mu.

// commit appends an entry that the leader has decided and applied to its tree, and
// replicates it.
func (e *Ensemble) commit(en entry) {
	en.at = time.Now()
	e.log.entries = append(e.log.entries, en)
	for _, s := range e.servers {
		if s.running {
			s.replicate()
		}
	}
	e.trim()
}

// trim drops the entries that every server has applied. It does not wait for servers that
// are stopped, or were isolated for too long: these copy the leader's tree later.
func (e *Ensemble) trim() {
	least := e.log.end()
	for _, s := range e.servers {
		if s.connected() || s.serving {
			least = min(least, s.next)
		}
	}
	const batch = 256
	if n := least - e.log.first; n >= batch || least == e.log.end() {
		clear(e.log.entries[:n])
		e.log.entries = e.log.entries[n:]
		e.log.first = least
		if len(e.log.entries) == 0 {
			e.log.entries = nil
		}
	}
}

// replicate applies the entries that have reached the server by now.
func (s *Server) replicate() {
	if s.isolated {
		return
	}
	for s.next < s.ensemble.log.end() {
		if s.next < s.ensemble.log.first {
			return // it is about to copy the leader's tree
		}
		en := &s.ensemble.log.entries[s.next-s.ensemble.log.first]
		if s != s.ensemble.leader && s.lag > 0 {
			if wait := time.Until(en.at.Add(s.lag)); wait > 0 {
				s.replicateIn(wait)
				return
			}
		}
		s.apply(en)
	}
}

func (s *Server) replicateIn(wait time.Duration) {
	if s.lagTimer != nil {
		s.lagTimer.Stop()
	}
	s.lagTimer = s.ensemble.after(wait, func() {
		if s.running {
			s.replicate()
		}
	})
}

// catchUp applies all entries, regardless of lag and isolation.
func (s *Server) catchUp() {
	for s.next < s.ensemble.log.end() && s.next >= s.ensemble.log.first {
		s.apply(&s.ensemble.log.entries[s.next-s.ensemble.log.first])
	}
}

// apply carries out the next entry: it sends the events to watchers first, and then
// answers the requests that wait for the transaction.
func (s *Server) apply(en *entry) {
	s.next++
	if en.counter.path != "" {
		// The node exists: on the leader, and by now on all other servers.
		_ = s.tree.SetCounter(en.counter.path, en.counter.next)
		return
	}
	outcome := en.outcome
	if s.tree.Zxid() < en.txn.Zxid { // otherwise this is the leader, which has applied it already
		outcome = s.tree.Apply(en.txn)
	}
	s.zxid = en.txn.Zxid
	for _, change := range outcome.Changes {
		s.notify(change)
	}
	if en.closes != 0 {
		s.closeSession(en.closes)
	}
	for _, c := range inOrder(s.waiting) {
		c.answerReady()
	}
}
