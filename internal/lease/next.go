// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// next returns the next step of an acquisition. l is the last listing, and c the contender that was read last: nil if it is
// missing. next does no I/O, and knows no time but s's.
func next(s state, l *listing, c *Contender) step {
	if s.looked == "" { // c was read in another phase
		c = nil
	}
	switch {
	case s.phase == woken:
		return s.wake()
	case s.phase == leaving && s.err == nil && s.name != "":
		return s.remove(leaving)
	case s.phase == leaving: // if that failed, the observers delete the node
		return step{do: doRefuse, err: s.cause}
	case s.err != nil:
		return s.failed()
	}
	switch s.phase {
	case beginning:
		return s.begin()
	case sharing:
		return s.share(l, c)
	case seeking:
		return s.seek(l, c)
	case adopting, proven:
		return s.adopt(c)
	case joined:
		if s.alone && s.own.Held {
			return s.grant()
		}
		return s.list(soon, placing)
	case placing:
		return s.place(l, c)
	case existing:
		if s.looked == "" {
			return s.list(l.by, placing)
		}
		s.phase = proven
		return s.read(s.looked)
	case blocked:
		return s.wait()
	case counting:
		return s.count(l, c)
	case answering:
		return s.answer(l, c)
	case refusing:
		return s.held(l, c)
	}
	return s.grant()
}

// begin begins an attempt: the first one, one after a wait, or one after another write overtook the last attempt.
func (s state) begin() step {
	switch {
	case s.wrote && s.first:
		return s.hold()
	case s.wrote && s.over:
		return s.list(recent, counting)
	case s.wrote: // the nearest contender ahead has left, or the session is over
		return s.list(newest, placing)
	case s.name != "":
		s.phase = adopting
		return s.read(s.name)
	case s.polled.ahead != "" && s.is(s.polled.node) && s.refusal(s.polled.node) == nil:
		return s.resume()
	case s.req.Reentrant:
		return s.list(soon, sharing)
	}
	return s.look()
}

// resume goes on with a waiter whose last poll this replica has answered. It writes the node over that answer's version, which
// shows that no other call has written it since. Contenders join only behind, so the nearest one ahead is the same until it
// leaves, and no listing is needed.
func (s state) resume() step {
	last := s.polled
	s.polled, s.name, s.ahead = write{}, last.node.Name, last.ahead
	return s.write(last.node, false, waitTTL, blocked)
}

// share shares the lease in front of the queue, if its owner and this request ask for that. Requests are a set and not a
// count, so that a request which is sent again changes nothing.
func (s state) share(l *listing, c *Contender) step {
	switch {
	case s.looked == "" && len(l.names) > 0:
		return s.read(l.names[0])
	case c == nil, !ofOwner(*c, s.req.Principal, s.req.Owner), !c.Held, !c.Lease.Reentrant, hinted(c.Name, s.hint):
		return s.look()
	}
	shared, record := *c, *c.Lease
	switch err := s.refusal(shared); {
	case err != nil:
		return s.fail(err)
	case has(record.Requests, s.hash):
	case len(record.Requests)+len(record.Closed) >= maxRequests:
		return s.fail(ErrExhausted)
	default:
		record.Requests = append(slices.Clone(record.Requests), s.hash)
	}
	shared.Lease = &record
	return s.write(shared, true, max(record.TTL, s.req.TTL), granted)
}

// look lists the queue to find a node of an earlier call, unless the queue is empty. If the listing is not the newest, it may
// not show that node. Then the one after the create does.
func (s state) look() step {
	switch {
	case s.empty:
		return s.join(true)
	case s.req.Wait == 0:
		return s.list(soon, seeking)
	}
	return s.list(recent, seeking)
}

// seek adopts a node of the request in the listing. If there is none, the request joins the queue.
func (s state) seek(l *listing, c *Contender) step {
	if c != nil && s.is(*c) {
		return s.adopt(c)
	}
	if name := s.candidate(l.names); name != "" {
		return s.read(name)
	}
	switch {
	case len(l.names) == 0 || s.req.Wait > 0:
		return s.join(len(l.names) == 0)
	case !s.synced: // a server that lags may not show the lease of an earlier call for this request
		s.phase, s.synced = beginning, true
		return step{do: doSync, then: s}
	}
	s.phase, s.looked = refusing, ""
	return s.held(l, nil)
}

// candidate returns the next of the names that may be a node of the request, empty if there is none.
func (s *state) candidate(names []string) string {
	for _, name := range names[slices.Index(names, s.looked)+1:] {
		if hinted(name, s.hint) {
			return name
		}
	}
	return ""
}

// adopt takes over the request's node, which this call or another one has created. Its time began at a write that an observer
// may have seen long ago, so nothing is answered without a write of this call. The read comes before the listing: if the node
// was granted when it was read, a later listing shows no contender ahead.
//
// A server that lags must not end a lease: if the node is missing there, or refused, a quorum is asked.
func (s state) adopt(c *Contender) step {
	own := c != nil && s.is(*c)
	switch {
	case own && s.refusal(*c) == nil:
		s.own, s.name = *c, c.Name
		return s.list(soon, placing)
	case s.phase != proven:
		return s.check(s.looked)
	case !own:
		return s.missing(zk.ErrNoNode)
	}
	return s.fail(s.refusal(*c))
}

// is reports whether the contender was created by this request.
func (s *state) is(c Contender) bool {
	return ofOwner(c, s.req.Principal, s.req.Owner) && (has(c.Lease.Requests, s.hash) || has(c.Lease.Closed, s.hash))
}

// refusal returns why the request cannot have that lease of its owner.
func (s *state) refusal(c Contender) error {
	switch {
	case c.Revoked != nil:
		return &RevokedError{By: c.Revoked.By, Reason: c.Revoked.Reason}
	case has(c.Lease.Closed, s.hash):
		return ErrReleased
	case c.Lease.Reentrant != s.req.Reentrant:
		return &MismatchError{Field: "reentrant"}
	case hinted(c.Name, s.hint) && !maps.Equal(c.Lease.Metadata, s.req.Metadata):
		return &MismatchError{Field: "metadata"}
	}
	return nil
}

// join creates the request's node.
func (s state) join(held bool) step {
	if s.gone != nil {
		return s.fail(s.gone)
	}
	record := Lease{
		TTL: waitTTL, Held: held, Principal: s.req.Principal, Owner: s.req.Owner,
		Reentrant: s.req.Reentrant, Metadata: maps.Clone(s.req.Metadata), Requests: []string{s.hash},
	}
	if held {
		record.TTL = s.req.TTL
	}
	s.phase, s.sent = joined, s.now
	return step{do: doCreate, lease: record, deletable: true, then: s}
}

// place holds the lease if no contender is ahead of the request's node, and otherwise waits, or gives up.
func (s state) place(l *listing, c *Contender) step {
	i := slices.Index(l.names, s.name)
	if i < 0 {
		return s.check(s.name)
	}
	if s.wrote && s.own.Version == 0 { // an earlier call for the request may have created a node too
		if c != nil && s.is(*c) {
			return s.remove(adopting)
		}
		if name := s.candidate(l.names[:i]); name != "" {
			return s.read(name)
		}
	}
	switch {
	case i == 0:
		return s.hold()
	case !s.wrote, s.own.Held && s.req.Wait > 0:
		return s.write(s.own, false, waitTTL, placing)
	case s.req.Wait == 0:
		s.looked = ""
		return s.remove(refusing)
	}
	s.ahead = l.names[i-1]
	return s.wait()
}

// hold writes the node as held. No contender is ahead in a listing that has the node.
func (s state) hold() step {
	ttl := s.req.TTL
	if s.own.Held {
		ttl = max(ttl, s.own.TTL)
	}
	return s.write(s.own, true, ttl, granted)
}

// write writes the record in c over the version in c, which this call has read or written.
func (s state) write(c Contender, held bool, ttl time.Duration, then phase) step {
	if s.gone != nil {
		return s.fail(s.gone)
	}
	record := *c.Lease
	record.Held, record.TTL = held, ttl
	// A lease that may have been granted before stays if the caller goes.
	deletable := !held || !c.Held || s.deletable
	s.phase, s.sent, s.wrote, s.deletable = then, s.now, false, false
	return step{do: doWrite, over: c, lease: record, deletable: deletable, then: s}
}

// wait waits for the nearest contender ahead.
func (s state) wait() step {
	s.phase, s.attempt = woken, 0
	return step{do: doWatch, name: s.ahead, then: s}
}

// wake continues after a wait, in the client's current session. The node may have expired, or another client have deleted it.
func (s state) wake() step {
	if s.lost != nil {
		s.wrote, s.deletable = false, false
	}
	switch {
	case errors.Is(s.lost, zk.ErrBadVersion), errors.Is(s.lost, zk.ErrNoNode) && s.ended():
		return s.refuse(ErrSuperseded)
	case errors.Is(s.lost, zk.ErrNoNode):
		s.name = ""
	}
	if s.err != nil {
		return s.refuse(s.err)
	}
	return s.again()
}

// count ends a poll: if wait time is left, the node is written for the time until the caller asks again; otherwise it is
// deleted. If no contender is ahead, the lease can perhaps be granted after all.
func (s state) count(l *listing, c *Contender) step {
	switch i := slices.Index(l.names, s.name); {
	case i < 0 && l.by == recent, i > 0 && s.looked != "" && c == nil: // the front has left
		return s.list(soon, counting)
	case i <= 0:
		s.over = false
		return s.begin()
	case c == nil:
		return s.read(l.names[0])
	case s.drained, s.req.Wait > s.req.poll():
		return s.write(s.own, false, askWithin, answering)
	}
	return s.remove(refusing)
}

// answer answers a poll. c is the contender in front.
func (s state) answer(l *listing, c *Contender) step {
	s.deletable = false // the caller is about to be answered
	st := s.refuse(&WaitingError{Path: s.req.Path, Position: slices.Index(l.names, s.name), Front: *c, AskWithin: askWithin})
	st.remember = &write{node: s.own, ahead: s.ahead}
	return st
}

// held refuses the request, and names the first contender ahead that has not left.
func (s state) held(l *listing, c *Contender) step {
	if c != nil {
		return s.refuse(&HeldError{Path: s.req.Path, Front: *c, RetryAfter: retryAfter(*c, s.now)})
	}
	rest := l.names[slices.Index(l.names, s.looked)+1:]
	if len(rest) == 0 || rest[0] == s.own.Name {
		return s.fail(fmt.Errorf("%w: all contenders have left", errAgain))
	}
	return s.read(rest[0])
}

// retryAfter estimates when it is worth asking again.
func retryAfter(front Contender, now time.Time) time.Duration {
	const least = time.Second
	if front.Lease == nil {
		return least
	}
	return min(max(front.Written.Add(front.TTL).Sub(now), least), front.TTL)
}

// grant returns the grant that the last write made, unless the caller has gone.
func (s state) grant() step {
	if s.gone != nil {
		return s.fail(s.gone)
	}
	g := grantOf(s.req.Path, s.own, s.hash, s.received, s.sent)
	g.Repeated = !s.deletable // it is an earlier call's
	return step{do: doGrant, grant: g, remember: &write{node: s.own}}
}

// grantOf returns the grant that a write has made, which was first sent at that instant. The
// observers count from a later one.
func grantOf(path string, c Contender, hash string, received, sent time.Time) Grant {
	valid := c.TTL + max(0, sent.Sub(received))/32*31
	return Grant{
		Path: path, Owner: c.Owner, Token: c.Token, TTL: c.TTL, Valid: valid, Expires: received.Add(valid),
		Ticket: Ticket{Path: path, Node: c.Name, Principal: c.Lease.Principal, Owner: c.Owner, Request: hash},
	}
}

// list lists the queue.
func (s state) list(by lister, then phase) step {
	s.phase, s.looked = then, ""
	return step{do: doList, by: by, then: s}
}

// read reads a contender, for the phase of s.
func (s state) read(name string) step {
	s.looked = name
	return step{do: doRead, name: name, then: s}
}

// check asks a quorum whether a node exists. An answer that follows is at least as new.
func (s state) check(name string) step {
	s.phase = existing
	return step{do: doCheck, name: name, then: s}
}

// remove deletes the version of the node that this call has written.
func (s state) remove(then phase) step {
	s.phase, s.wrote, s.deletable, s.kept = then, false, false, time.Time{}
	return step{do: doDelete, over: s.own, then: s}
}

// failed goes on after a step that was not carried out, or whose outcome is unknown.
func (s state) failed() step {
	last := s.phase == answering || s.phase == refusing
	switch err := s.err; {
	case errors.Is(err, zk.ErrNoNode):
		return s.missing(err)
	case last && errors.Is(err, zk.ErrBadVersion): // another call has written the node
		return s.fail(ErrSuperseded)
	case !last && (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, ErrUncertain)):
		return s.fail(fmt.Errorf("%w: %w", errAgain, err))
	}
	return s.fail(s.err)
}

// missing begins again without the request's node, unless the request has ended.
func (s state) missing(err error) step {
	ended := s.ended()
	s.name, s.wrote, s.deletable, s.kept = "", false, false, time.Time{}
	if ended {
		return s.refuse(ErrSuperseded)
	}
	return s.fail(fmt.Errorf("%w: %w", errAgain, err))
}

// ended reports whether the request's node, which is missing, cannot have expired. Then another call has withdrawn the request or
// released its lease, or an operator has deleted the node. This call's caller may have gone without its knowledge: if the call
// joined again, it could take the lock for no client.
func (s *state) ended() bool { return s.now.Before(s.kept) }

// fail begins again if the error is errAgain. Otherwise, or if that has been done often enough, it refuses the request.
func (s state) fail(err error) step {
	if errors.Is(err, errAgain) && s.attempt < attempts && !s.late {
		s.attempt++
		return s.again()
	}
	return s.refuse(final(s.gone, err))
}

// again begins again in the client's current session.
func (s state) again() step {
	s.phase, s.looked, s.synced = beginning, "", false
	return step{do: doSession, then: s}
}

// refuse refuses the request, once its node is deleted. After ErrUncertain the caller keeps its position, and asks again.
func (s state) refuse(err error) step {
	if !s.deletable || errors.Is(err, ErrUncertain) {
		return step{do: doRefuse, err: err}
	}
	s.phase, s.attempt, s.cause = leaving, 0, err
	return step{do: doSession, then: s}
}
