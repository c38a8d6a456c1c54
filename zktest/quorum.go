// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"time"
)

// Leadership and replication state are guarded by the ensemble's mu. The callers of the
// unexported methods in this file hold it.

// lead makes s the leader.
func (e *Ensemble) lead(s *Server) {
	e.leader = s
	if len(e.servers) > 1 {
		// A new leader's zxids are greater than all earlier ones.
		e.epoch++
		e.zxid = e.epoch << 32
	}
	e.cancelStepDown()
	s.keepServing()
	s.catchUp()
	s.next = e.log.end() // no server has entries that the new leader lacks
	now := time.Now()
	for _, other := range e.servers {
		if !other.connected() {
			continue
		}
		if other != s {
			other.takeOver(s)
		}
		other.zxid, other.serving = e.zxid, true
	}
	// It knows all sessions, but not when each was last heard, nor the timeouts of later
	// handshakes: only that of the first is in a transaction.
	for _, ses := range e.sessions {
		ses.closing = false // the end that another leader could not commit is lost
		e.touch(ses, ses.firstTimeout, now)
	}
	e.wake()
}

// connected reports whether the server can be part of a quorum.
func (s *Server) connected() bool { return s.running && !s.isolated }

// reachesLeader reports whether the server is the leader, or exchanges messages with it.
func (s *Server) reachesLeader() bool {
	leader := s.ensemble.leader
	return leader != nil && (s == leader || s.connected() && leader.connected())
}

// quorum reports whether there is a leader and it can commit.
func (e *Ensemble) quorum() bool {
	if e.leader == nil || !e.leader.connected() {
		return false
	}
	return e.majority()
}

// majority reports whether most of the servers can reach each other.
func (e *Ensemble) majority() bool {
	n := 0
	for _, s := range e.servers {
		if s.connected() {
			n++
		}
	}
	return n > len(e.servers)/2
}

// elect starts an election among the servers that can reach each other, which takes the
// ElectionTime. Until it ends they do not serve: their clients are disconnected.
func (e *Ensemble) elect() {
	e.leader = nil
	e.cancelStepDown()
	for _, s := range e.servers {
		if s.connected() {
			s.serving = false
			s.dropAll(errors.New("no leader"))
			s.pending = nil
			clear(s.touched)
		}
	}
	if e.electionTimer != nil {
		e.electionTimer.Stop()
	}
	e.electionTimer = time.AfterFunc(e.opts.ElectionTime, func() {
		e.mu.Lock()
		defer e.unlock()
		e.endElection()
	})
}

// endElection makes the server with the greatest zxid the leader, if a majority can reach
// each other.
func (e *Ensemble) endElection() {
	if e.closed || e.leader != nil || !e.majority() {
		return // the next server that joins starts a new election
	}
	// With the greatest zxid wins every transaction that a majority had.
	var best *Server
	for _, s := range e.servers {
		if s.connected() && (best == nil || s.tree.Zxid() > best.tree.Zxid()) {
			best = s
		}
	}
	e.lead(best)
}

// takeOver brings the server's data up to date with the leader's.
func (s *Server) takeOver(leader *Server) {
	if s.ensemble.log.has(s.next) {
		s.catchUp()
		return
	}
	s.tree, s.next = leader.tree.Clone(), leader.next
}

// join makes a server that has started, or whose isolation has ended, part of the
// ensemble again. Data that only this server has is lost.
func (e *Ensemble) join(s *Server) {
	if e.leader == nil {
		if len(e.servers) == 1 {
			e.lead(s)
		} else {
			s.serving = false
			e.elect()
		}
		return
	}
	s.tree = e.leader.tree.Clone()
	s.zxid, s.next = e.zxid, e.leader.next
	s.serving = e.quorum()
	e.wake()
	e.checkQuorum()
}

// checkQuorum schedules the step-down of a leader that has no quorum. It cancels the step-down of
// a leader that has its quorum again, and forwards the waiting requests.
func (e *Ensemble) checkQuorum() {
	switch {
	case e.leader == nil:
		return
	case !e.quorum():
		if e.stepDownTimer == nil {
			e.stepDownTimer = e.after(e.syncTime(), e.stepDown)
		}
		return
	}
	e.cancelStepDown()
	e.leader.forward() // its own requests, and the ends of sessions, are earlier than what arrives from now on
	for _, s := range e.servers {
		if s.connected() {
			s.serving = true
			s.forward()
		}
	}
	e.wake()
}

// stepDown ends the leadership of a leader that still has no quorum.
func (e *Ensemble) stepDown() {
	e.stepDownTimer = nil
	if e.leader != nil && !e.quorum() {
		e.elect()
	}
}

// cancelStepDown cancels the scheduled step-down of the leader.
func (e *Ensemble) cancelStepDown() {
	if e.stepDownTimer != nil {
		e.stepDownTimer.Stop()
		e.stepDownTimer = nil
	}
}

// syncTime returns the duration of the SyncLimit.
func (e *Ensemble) syncTime() time.Duration {
	return time.Duration(e.opts.SyncLimit) * e.opts.Tick
}

// after calls f under mu once d has passed, unless the ensemble was closed.
func (e *Ensemble) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.unlock()
		if !e.closed {
			f()
		}
	})
}

// loseAll discards all nodes and sessions of the ensemble.
func (e *Ensemble) loseAll() {
	e.zxid, e.epoch = 0, 0
	e.log = log{}
	clear(e.sessions)
	for _, s := range e.servers {
		s.tree, s.zxid, s.next = e.newTree(), 0, 0
	}
}
