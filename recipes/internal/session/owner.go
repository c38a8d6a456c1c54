// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// Own does what the session is to do for those that wait and hold, until it is over. It
// ends what was granted at the deadline, sends heartbeats, leaves servers that do not answer, has
// nodes deleted, and gives up a session that no server has served for so long that it
// cannot be alive. All that it decides on is guarded by mutexes that are never held over I/O (see
// the lock order in the package's documentation). It waits for nothing but its own clock, and
// starts what may block on other goroutines, so that I/O delays no deadline.
func (s *Session) Own() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.alarm.Rings():
		case <-timer.C:
		}
		now := time.Now()
		s.alarm.Begin(now)
		s.Lapse(now)
		next := min(s.tendWire(now), s.tendBeat(now), s.tendDeletions(now), s.tendAttachment(now))
		timer.Reset(s.alarm.End(now, next))
	}
}

// Lapse ends what was granted if the session may no longer be believed to live. The owner
// does so at the deadline; a caller that asks after it must not get another answer.
func (s *Session) Lapse(now time.Time) {
	if s.lease.Left(now) > 0 {
		return
	}
	ended, reports := endAll(s.nodes.take(), ErrDeadline)
	for i, n := range ended {
		s.DeleteLater(n)
		reports[i]()
	}
}

// tendWire leaves a server that has answered nothing for T/8 of what it was asked.
// The ZooKeeper client would wait for 2T/3, and a holder that waits so long loses what it
// holds. But a session whose every server is slow keeps the one that it has: see
// [dialer.mayLeave]. It returns when to look again: a request that begins before that
// has the owner look in time.
func (s *Session) tendWire(now time.Time) time.Duration {
	timeout := s.Timeout()
	s.mu.Lock()
	w, serving := s.wire, s.isAttached
	s.mu.Unlock()
	if !serving {
		return timeout
	}
	asked, silent := w.SilentFor(now)
	switch {
	case !asked:
		return timeout
	case silent < timeout/8:
		return timeout/8 - silent
	}
	if wait := s.dialer.mayLeave(now); wait > 0 {
		return wait
	}
	w.Sever()
	return timeout
}

// tendAttachment gives a session up that no server has served for 2 T. It may
// still be alive, on an ensemble that is down as a whole; but it may also be one
// that no server will ever know again, and a client that waits for it would wait
// for ever.
//
// One that has nodes is given up at its deadline if servers take connections and
// answer nothing: where only the way back is cut, each attempt would keep the
// session alive, and its nodes in everybody's way.
func (s *Session) tendAttachment(now time.Time) time.Duration {
	timeout := s.Timeout()
	s.mu.Lock()
	attached, since, through := s.isAttached, now.Sub(s.detachedSince), s.through > 0
	outage := !attached && !s.outage && since >= timeout/4
	if outage {
		s.outage = true
	}
	s.mu.Unlock()
	if attached {
		return timeout
	}
	if outage {
		s.events.Outage(since, s.dialer.why())
	}
	// What had been sent was failed with the connection. What is still waited for
	// was not sent, and nobody knows for how long it would have to wait.
	if through && since >= timeout/8 {
		s.dialer.giveBack()
	}
	left := s.lease.Left(now)
	mute := left <= 0 && since >= timeout/3 && s.Outstanding() > 0 && s.dialer.isMute()
	if mute || since >= 2*timeout {
		s.End(ErrGivenUp)
		return timeout
	}
	next := timeout / 24
	if left > 0 && !through {
		next = left
	}
	if since < timeout/4 {
		next = min(next, timeout/4-since)
	}
	return min(next, 2*timeout-since)
}
