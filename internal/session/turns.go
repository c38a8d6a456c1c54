// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"context"
	"sync"
)

// MaxInFlight bounds how many ordinary requests of one session are in flight. Each write of a group counts as one of them, but a
// group is not split: there may be one group more. A heartbeat
// queues behind them on the connection and at the server, however many callers there are;
// this many are answered well within T/8. With half as many, a burst of 10,000 joins takes
// a sixth longer.
const MaxInFlight = 128

// forHolders is how many of them are reserved for requests of holders, and forContenders for other requests
// that are no joins. A slow server would otherwise answer all joins of a burst before a release, a
// Check, or the watch of a waiter.
const (
	forHolders    = 32
	forContenders = 16
)

// A Role is the role of the caller of a request. Where callers wait for a turn, holders come first and
// joins last: a hand-off of a lock is a release, followed by reads of the next contender, and would
// otherwise wait for the joins of all other locks. Each of these reads ends a wait; a join begins one.
type Role int

// The roles.
const (
	Joining  Role = iota // the request creates a contender
	Ordinary             // the caller has a node, or reads
	Holder               // the caller holds a claim of the session
	roles
)

// fairShare is the part of the turns that goes to the callers who would otherwise be last, joins and others alternately: one in so
// many. Holders that never pause could keep them out for ever.
const fairShare = 8

// precedence returns the order in which the roles are served next, if served callers have been.
func precedence(served int) [roles]Role {
	switch served % (2 * fairShare) {
	case fairShare - 1:
		return [...]Role{Joining, Ordinary, Holder}
	case 2*fairShare - 1:
		return [...]Role{Ordinary, Joining, Holder}
	}
	return [...]Role{Holder, Ordinary, Joining}
}

// turns bound the requests in flight. The zero value is ready to use.
type turns struct {
	mu       sync.Mutex       // guards what follows
	inFlight [roles]int       // by the role of their callers
	waiting  [roles]list.List // of chan struct{}: callers in the order in which they came
	passed   int              // turns that were passed on to a waiting caller
}

// A Turn is held by a request in flight.
type Turn struct {
	turns *turns
	taken [roles]int // as in turns.inFlight
}

// Add makes the request count as one more, of a caller of that role, even if no other turn is free.
func (t *Turn) Add(as Role) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.taken[as]++
	t.turns.inFlight[as]++
}

// End ends the turn once the request has been answered.
func (t *Turn) End() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	for as, n := range t.taken {
		t.turns.inFlight[as] -= n
	}
	t.turns.passOn()
}

// take waits for a turn, and reports false if one of the contexts ends first. It calls Done only
// if no turn is free, because the first Done of a context, such as the context of each release,
// allocates a channel.
func (t *turns) take(as Role, session, caller context.Context) (mine Turn, ok bool) {
	mine = Turn{turns: t}
	mine.taken[as] = 1
	t.mu.Lock()
	if t.isFree(as) { // then no caller of this role waits, nor one that comes before it
		t.inFlight[as]++
		t.mu.Unlock()
		return mine, true
	}
	given := make(chan struct{})
	place := t.waiting[as].PushBack(given)
	t.mu.Unlock()
	select {
	case <-given:
		return mine, true
	case <-session.Done():
	case <-caller.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-given: // in the meantime
		t.inFlight[as]--
		t.passOn()
	default:
		t.waiting[as].Remove(place)
	}
	return Turn{}, false
}

// isFree reports whether a caller of that role may send a request. Reserved turns stay free although a group of joins may take more
// turns than are left. The caller holds mu.
func (t *turns) isFree(as Role) bool {
	joins, others, holders := t.inFlight[Joining], t.inFlight[Ordinary], t.inFlight[Holder]
	free := joins+others+holders < MaxInFlight
	switch as {
	case Holder:
		return free || holders < forHolders
	case Ordinary:
		return free && joins+others < MaxInFlight-forHolders || others < forContenders && holders <= forHolders
	}
	return free && joins+others < MaxInFlight-forHolders && joins < MaxInFlight-forHolders-forContenders
}

// passOn gives the turns that are free to callers that wait. The caller holds mu.
func (t *turns) passOn() {
	for {
		as, ok := t.next()
		if !ok {
			return
		}
		first := t.waiting[as].Front()
		t.waiting[as].Remove(first)
		t.inFlight[as]++
		t.passed++
		close(first.Value.(chan struct{}))
	}
}

// next returns the role of the caller that is given the next turn. The caller holds mu.
func (t *turns) next() (as Role, ok bool) {
	for _, as := range precedence(t.passed) {
		if t.waiting[as].Len() > 0 && t.isFree(as) {
			return as, true
		}
	}
	return 0, false
}
