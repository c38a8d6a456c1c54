// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"errors"
	"maps"
	"time"
)

// Isolate partitions the server from the other servers, until Heal; its clients stay
// connected. For the ensemble's SyncLimit a follower continues to answer pings and reads,
// from its own data, while the leader expires the sessions of its clients; writes of its
// clients wait. An isolated leader continues to answer pings, reads and syncs as if it led,
// and the writes of its clients are never carried out, while the other servers elect
// another leader if they are a majority. If they are not, the leader expires the sessions that
// it does not hear, and these end once it reaches a majority again, unless it has stopped
// leading. After the SyncLimit the server disconnects its clients and stops serving. In an
// ensemble of one Isolate has no effect.
func (s *Server) Isolate(context.Context) error {
	s.impede(func() { s.partition = fromPeers })
	return nil
}

// Partition partitions the server from the other servers, as Isolate does, and from clients:
// nothing arrives, no side gets an error, and a dial waits until its ctx ends. On a socket
// new connections are still made, because the operating system makes them. What was sent
// arrives after Heal, on connections that live that long.
func (s *Server) Partition(context.Context) error {
	s.impede(func() { s.partition = fromAll })
	return nil
}

// Heal ends Isolate and Partition. A follower that is still serving continues, if its leader
// still leads: the waiting writes of its clients are carried out now, unless their sessions
// have expired. Any other follower, and a leader that was replaced, copies the leader's
// data, and its clients are disconnected.
func (s *Server) Heal(context.Context) error {
	s.impede(func() { s.partition = none })
	return nil
}

// Pause suspends a running server, as SIGSTOP does, until Unpause: its connections stay open
// and new ones are made, but it answers neither clients nor the other servers.
func (s *Server) Pause(context.Context) error {
	s.impede(func() { s.paused = s.running })
	return nil
}

// Unpause continues a paused server. What clients have sent meanwhile arrives now. The server
// rejoins the others as Heal describes.
func (s *Server) Unpause(context.Context) error {
	s.impede(func() { s.paused = false })
	return nil
}

// silent reports whether nothing passes between the server and its clients. The caller holds
// the ensemble's mu.
func (s *Server) silent() bool { return s.paused || s.partition == fromAll }

// impede changes partition or paused, and carries out the consequences.
func (s *Server) impede(change func()) {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	change()
	e.applyImpairments()
	isolated := len(e.servers) > 1 && (s.partition != none || s.paused)
	if isolated == s.isolated {
		return
	}
	s.isolated = isolated
	switch {
	case e.closed || !s.running:
	case isolated:
		s.leave()
	default:
		s.rejoin()
	}
}

// leave carries out that the server has been isolated. After the SyncLimit it stops serving.
// The caller holds mu.
func (s *Server) leave() {
	e := s.ensemble
	s.isolatedIn = e.epoch
	s.isolationTimer = e.after(e.syncTime(), func() {
		if s.isolated {
			s.isolationTimer, s.serving = nil, false
			s.dropAll(errors.New("server is isolated from its leader"))
			s.pending = nil
		}
	})
	if s == e.leader && e.majority() {
		s.replaced, s.remembered = true, maps.Clone(e.sessions)
		e.elect()
		return
	}
	e.checkQuorum()
}

// rejoin carries out that the server's isolation has ended. The caller holds mu.
func (s *Server) rejoin() {
	e := s.ensemble
	s.keepServing()
	if s.serving && !s.replaced && e.leader != nil && s.isolatedIn == e.epoch && e.log.has(s.next) {
		s.replicate()
		e.checkQuorum()
		s.forward()
		return
	}
	s.replaced, s.remembered = false, nil
	s.dropAll(errors.New("server rejoins its leader"))
	s.pending = nil
	clear(s.touched)
	e.join(s)
}

// keepServing cancels the end of serving that leave scheduled.
func (s *Server) keepServing() {
	if s.isolationTimer != nil {
		s.isolationTimer.Stop()
		s.isolationTimer = nil
	}
}

// Lag makes the server apply each transaction d after the leader's commit: it answers
// reads from old data, and its clients' writes late. Zero makes it catch up. A leader
// never lags. A negative d ends the test, or panics outside tests.
func (s *Server) Lag(d time.Duration) {
	e := s.ensemble
	e.mustNotBeNegative(d)
	e.mu.Lock()
	defer e.unlock()
	s.lag = d
	s.replicate()
}
