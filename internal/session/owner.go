// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// An owner is the goroutine that decides for a session.
type owner struct {
	*Session
	needy time.Time // since when there are waiters or nodes to delete
	syncs syncs     // of waiters
}

// Run serves the waiters and holders of the session until the session is over. It ends all
// grants at the deadline, sends heartbeats and syncs, leaves servers that do not answer, starts the
// deletion of nodes, and abandons a session that no server has served for too long. The state
// that it reads is guarded by mutexes that are never held during I/O (see the lock order in
// the package's documentation). It waits only for its timer and its alarm, and starts code that
// may block on other goroutines, so that I/O delays no deadline.
func (s *Session) Run() {
	o := owner{Session: s, syncs: syncs{heartbeats: s.heartbeats}}
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
		s.checkDeadline(now)
		next := min(o.leaveSilentServer(now), s.sendDueHeartbeat(now), o.syncs.sendDue(now), s.startDueDeletions(now),
			o.abandonIfDetached(now), o.abandonIfUnserved(now))
		timer.Reset(s.alarm.End(now, next))
	}
}

// EndOfGrants returns why no grant of the session holds at now: the reason why the session is over,
// or ErrDeadline. It returns nil while grants hold. A goroutine that was to end them at the
// deadline may not have been scheduled: EndOfGrants then ends them itself.
func (s *Session) EndOfGrants(now time.Time) error {
	s.checkDeadline(now)
	if over := s.Ended(); over != nil {
		return over
	}
	if s.lease.Left(now) <= 0 {
		return sentinel.ErrDeadline
	}
	return nil
}

// checkDeadline ends all grants if the session may no longer be believed to live.
func (s *Session) checkDeadline(now time.Time) {
	if s.lease.Left(now) > 0 {
		return
	}
	// A proof and a grant may have come since: a session that only waits is always past its deadline.
	grants := s.Nodes.TakeIf(func() bool { return s.lease.Left(time.Now()) <= 0 }, now.Add(s.Timeout()/4))
	ended, reports := nodes.EndAll(grants, sentinel.ErrDeadline)
	for i, n := range ended {
		s.DeleteLater(n)
		reports[i]()
	}
}

// leaveSilentServer leaves a server that has answered no request for that long. The ZooKeeper client would
// wait for 2T/3, and a holder that waits so long loses its lock. But if every server is slow,
// the session stays with its server: see [dialer.mayLeave]. leaveSilentServer returns how long the
// owner may sleep: a request that begins earlier wakes the owner in time.
func (o *owner) leaveSilentServer(now time.Time) time.Duration {
	timeout := o.Timeout()
	link := o.link.state()
	if !link.isAttached {
		return timeout
	}
	asked, silent := link.wire.SilentFor(now)
	switch {
	case !asked:
		return timeout
	case silent < o.patience():
		return o.patience() - silent
	}
	if wait := o.dialer.mayLeave(now); wait > 0 {
		return wait
	}
	link.wire.Sever()
	return timeout
}

// abandonIfDetached abandons a session that no server has served for 2 T. The session may
// still be alive, on an ensemble that is down as a whole. But it may also be one that no
// server will ever know again, and a client that waits for it would wait for ever.
//
// If servers accept connections and answer nothing, a session whose nodes may block other clients is abandoned earlier: after
// T without a server, or, if it could have held something until then, at its deadline, after T/3 at least. In a one-way partition that
// blocks only the answers, each attempt would keep the session alive. Nodes that wait behind other contenders block no client
// before those have left.
func (o *owner) abandonIfDetached(now time.Time) time.Duration {
	timeout := o.Timeout()
	link := o.link.state()
	if link.isAttached {
		return timeout
	}
	since, waiting := now.Sub(link.detachedSince), o.hasWaiting()
	if o.link.beginOutage(now, timeout/4) {
		o.events.Outage(since, o.dialer.why())
	}
	// The requests that were sent failed with the connection. Those that callers still
	// wait for were not sent, and could wait for any length of time.
	if waiting && since >= timeout/8 {
		o.dialer.failQueued()
	}
	limit := link.detachedSince.Add(2 * timeout)
	if o.Nodes.Need().Blocks && o.dialer.isMute() {
		limit = link.detachedSince.Add(timeout)
		if deadline := now.Add(o.lease.Left(now)); !o.lease.LastProof().IsZero() && deadline.After(link.detachedSince) {
			limit = earlier(limit, later(deadline, link.detachedSince.Add(timeout/3)))
		}
	}
	if !now.Before(limit) {
		o.End(ErrAbandoned)
		return timeout
	}
	next := min(timeout/24, limit.Sub(now)) // a handshake that is not answered wakes no goroutine
	if since < timeout/4 {
		next = min(next, timeout/4-since)
	}
	return next
}

// abandonIfUnserved abandons a session that has waiters, or nodes to delete, if for 2 T no request was answered, or for T after
// its deadline if some of its nodes may block other clients. A path to the servers that passes only small packets answers handshakes and pings, which
// keep the session alive: its nodes would block other clients for ever.
//
// After an outage the ensemble gets T/2 to answer: its first connections may end again. But an outage of which no handshake was
// answered is for abandonIfDetached to judge.
func (o *owner) abandonIfUnserved(now time.Time) time.Duration {
	timeout := o.Timeout()
	need := o.Nodes.Need()
	link := o.link.state()
	if !need.Contenders && !need.Deletions || link.wire == nil {
		o.needy = time.Time{}
		return timeout
	}
	if o.needy.IsZero() {
		o.needy = now
	}
	asked := link.wire.Unserved()
	since := later(asked, o.needy)
	if asked.IsZero() || !link.isAttached && link.attachedSince.Before(since) {
		return timeout
	}
	limit := since.Add(2 * timeout)
	if left := o.lease.Left(now); need.Blocks && left <= 0 {
		limit = earlier(limit, later(since, now.Add(left)).Add(timeout))
	}
	limit = later(limit, earlier(link.backSince.Add(timeout/2), since.Add(4*timeout)))
	if wait := limit.Sub(now); wait > 0 {
		return min(timeout, wait)
	}
	o.End(ErrAbandoned)
	return timeout
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
