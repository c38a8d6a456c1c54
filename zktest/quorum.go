// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Who leads, and who follows. All of it is guarded by the ensemble's mu, which the
// callers of the methods in small letters hold.

// lead makes s the leader.
func (e *Ensemble) lead(s *Server) {
	e.leader = s
	if len(e.servers) > 1 {
		// A new leader's zxids are greater than all before.
		e.epoch++
		e.zxid = e.epoch << 32
	}
	e.keepLeading()
	s.stay()
	s.catchUp()
	s.next = e.log.end() // what it does not have nobody has
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
	// It knows of all sessions, and of none when it was last heard.
	for _, ses := range e.sessions {
		e.touch(ses, now)
	}
}

// connected says whether the server can be part of a quorum.
func (s *Server) connected() bool { return s.running && !s.cut }

// quorum says whether the leader, if there is one, can commit.
func (e *Ensemble) quorum() bool {
	if e.leader == nil || !e.leader.connected() {
		return false
	}
	return e.majority()
}

func (e *Ensemble) majority() bool {
	n := 0
	for _, s := range e.servers {
		if s.connected() {
			n++
		}
	}
	return n > len(e.servers)/2
}

// elect has the servers that can reach each other choose a leader, which takes a
// while. Until then they serve nobody: their clients are disconnected.
func (e *Ensemble) elect() {
	e.leader = nil
	e.keepLeading()
	for _, s := range e.servers {
		if s.connected() {
			s.serving = false
			s.dropAll(errors.New("no leader"))
			s.pending = nil
			clear(s.touched)
		}
	}
	if e.electing != nil {
		e.electing.Stop()
	}
	e.electing = time.AfterFunc(e.opts.ElectionTime, func() {
		e.mu.Lock()
		defer e.unlock()
		e.endElection()
	})
}

func (e *Ensemble) endElection() {
	if e.closed || e.leader != nil || !e.majority() {
		return // the next server that comes back has it tried again
	}
	// The one that knows most: what a majority had is not lost.
	var best *Server
	for _, s := range e.servers {
		if s.connected() && (best == nil || s.tree.Zxid() > best.tree.Zxid()) {
			best = s
		}
	}
	e.lead(best)
}

// takeOver has the server hold what the leader does.
func (s *Server) takeOver(leader *Server) {
	if s.ensemble.log.has(s.next) {
		s.catchUp()
		return
	}
	s.tree, s.next = leader.tree.Clone(), leader.next
}

// join has a server that has started, or come back, be part of the ensemble again.
// What it holds that the others do not know of is gone.
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
	e.reckon()
}

// reckon has a leader without a quorum give up after a while, and one that has its
// quorum again go on.
func (e *Ensemble) reckon() {
	switch {
	case e.leader == nil:
		return
	case !e.quorum():
		if e.stepping == nil {
			e.stepping = e.after(e.syncTime(), e.stepDown)
		}
		return
	}
	e.keepLeading()
	for _, s := range e.servers {
		if s.connected() {
			s.serving = true
			s.forward()
		}
	}
}

// stepDown ends the time of a leader that has had no quorum for too long.
func (e *Ensemble) stepDown() {
	e.stepping = nil
	if e.leader != nil && !e.quorum() {
		e.elect()
	}
}

// keepLeading takes back that the leader is about to step down.
func (e *Ensemble) keepLeading() {
	if e.stepping != nil {
		e.stepping.Stop()
		e.stepping = nil
	}
}

func (e *Ensemble) syncTime() time.Duration {
	return time.Duration(e.opts.SyncLimit) * e.opts.Tick
}

// after runs f under mu once d has passed, unless the ensemble was closed.
func (e *Ensemble) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.unlock()
		if !e.closed {
			f()
		}
	})
}

// CutFromLeader lets nothing pass between the follower and the other servers, until
// Mend. For the ensemble's SyncLimit it goes on answering pings and reads, with what
// it knows, while the leader expires the sessions of its clients; what its clients
// write waits. Then it disconnects them and serves nobody.
func (s *Server) CutFromLeader() error {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	switch {
	case s == e.leader && len(e.servers) > 1:
		return fmt.Errorf("zktest: cut server %d from its leader: it leads; Depose it", s.index)
	case s == e.leader:
		return fmt.Errorf("zktest: cut server %d from its leader: it is alone", s.index)
	case !s.running:
		return fmt.Errorf("zktest: cut server %d from its leader: it is stopped", s.index)
	}
	s.isolate()
	e.reckon()
	return nil
}

// isolate cuts the server from all others.
func (s *Server) isolate() {
	if s.cut {
		return
	}
	s.cut, s.cutIn = true, s.ensemble.epoch
	s.quitting = s.ensemble.after(s.ensemble.syncTime(), func() {
		if s.cut {
			s.quitting, s.serving = nil, false
			s.dropAll(errors.New("server has lost its leader"))
			s.pending = nil
		}
	})
}

// Depose cuts the leader from the others, which elect another. Until Mend, but for
// the ensemble's SyncLimit at most, it goes on answering pings, reads and syncs as
// if it led; what its clients write waits, and is never carried out. It takes three
// servers of which two can still elect.
func (e *Ensemble) Depose() (*Server, error) {
	e.mu.Lock()
	defer e.unlock()
	old := e.leader
	if old == nil {
		return nil, errors.New("zktest: depose: nobody leads")
	}
	old.cut = true
	left := e.majority()
	old.cut = false
	if !left {
		return nil, fmt.Errorf("zktest: depose server %d: the others are no majority of %d, and cannot elect", old.index, len(e.servers))
	}
	old.isolate()
	old.deposed, old.remembered = true, maps.Clone(e.sessions)
	e.elect()
	return old, nil
}

// stay takes back that the server is about to serve nobody.
func (s *Server) stay() {
	if s.quitting != nil {
		s.quitting.Stop()
		s.quitting = nil
	}
}

// Mend ends what CutFromLeader or Depose began. A follower that is still serving
// carries on, if its leader still leads: what its clients wrote meanwhile is carried out
// now, unless their sessions have expired. Any other, and a leader that was deposed,
// takes the leader's data over; their clients are disconnected. A server that was not cut is
// left alone.
func (s *Server) Mend() error {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	if !s.running {
		return fmt.Errorf("zktest: mend server %d: it is stopped", s.index)
	}
	if !s.cut {
		return nil
	}
	s.cut = false
	s.stay()
	if s.serving && !s.deposed && e.leader != nil && s.cutIn == e.epoch && e.log.has(s.next) {
		s.replicate()
		e.reckon()
		s.forward()
		return nil
	}
	s.deposed, s.remembered = false, nil
	s.dropAll(errors.New("server joins its leader again"))
	s.pending = nil
	clear(s.touched)
	e.join(s)
	return nil
}

// Lag has the server apply what the leader commits that much later: it shows what
// was, and answers its clients' writes late. Zero has it catch up. The leader itself
// never lags.
func (s *Server) Lag(d time.Duration) {
	e := s.ensemble
	e.mustNotBeNegative(d)
	e.mu.Lock()
	defer e.unlock()
	s.lag = d
	s.replicate()
}

// loseAll makes the ensemble a new one, that knows of no session.
func (e *Ensemble) loseAll() {
	e.zxid, e.epoch = 0, 0
	e.log = log{}
	clear(e.sessions)
	for _, s := range e.servers {
		s.tree, s.zxid, s.next = e.newTree(), 0, 0
	}
}
