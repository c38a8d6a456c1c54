// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// An action is what a step does.
type action string

// The actions. A grant and a refusal end the acquisition.
const (
	doSession action = "session" // go on in the client's current session
	doList    action = "list"
	doSync    action = "sync"
	doRead    action = "read"
	doCheck   action = "check" // ask a quorum whether the node exists
	doCreate  action = "create"
	doWrite   action = "write"
	doDelete  action = "delete"
	doWatch   action = "watch" // wait for the contender, and renew the own node meanwhile
	doGrant   action = "grant"
	doRefuse  action = "refuse"
)

// A step is what an acquisition does next.
type step struct {
	do        action
	by        lister    // of doList
	name      string    // of the node, for doRead, doCheck and doWatch
	over      Contender // version that doWrite replaces or doDelete deletes
	lease     Lease     // record of doCreate and doWrite
	deletable bool      // state.deletable, once the record is written
	then      state     // receives the answer

	grant    Grant  // of doGrant
	err      error  // of doRefuse
	remember *write // last write of the request's node, for a later call
}

// A phase names the question that next decides by the last answer.
type phase int

const (
	beginning phase = iota // is a node of the request known?
	sharing                // can the request share the lease in front?
	seeking                // does the listing have a node of the request?
	adopting               // has the node that was read the request's lease?
	proven                 // the same, after a quorum has answered
	joined                 // does the answer to the create show that no contender is ahead?
	placing                // is a contender ahead of the request's node?
	existing               // a quorum has answered that the node exists: what does this server show now?
	blocked                // the node is written as waiting
	woken                  // why has the wait ended?
	counting               // the poll is over: how many contenders are ahead?
	answering              // the node is written for the time until the caller asks again
	refusing               // which contender is in front?
	granted                // the node is written as held
	leaving                // the request is refused: is its node deleted?
)

// A state holds all that an acquisition knows. It is a value: next changes a copy, which the step carries.
type state struct {
	now     time.Time
	gone    error // of the caller's context
	late    bool  // the bound of all attempts has passed
	drained bool  // the replica is drained
	empty   bool  // the queue had no contender, when last seen
	first   bool  // own is known to have no contender ahead

	req        Request
	received   time.Time
	hint, hash string
	phase      phase

	name      string    // of the request's node, empty if none is known
	own       Contender // the node as this call has read or written it last
	wrote     bool      // this call has written own, and no other one since, as far as it knows
	deletable bool      // own may be deleted if the caller goes: no other call can have granted it
	sent      time.Time // instant at which own was sent
	kept      time.Time // until then no observer deletes own, which this call has written; zero if the call deletes it itself
	alone     bool      // no contender is ahead of the node that was created
	polled    write     // a waiter whose last poll this replica has answered
	looked    string    // node that was read last in this phase
	synced    bool      // the server is not older than this call

	ahead   string // contender that the call waits for, or has waited for
	over    bool   // the poll is over
	lost    error  // of a renewal during the wait
	attempt int    // attempts that were overtaken since the last wait
	err     error  // of the last step
	cause   error  // of the refusal, while the node is deleted
}

// stored returns the state after the step. c is the contender that it has created or written.
func (st *step) stored(c Contender, err error) state {
	s := st.then
	if s.err = err; errors.Is(err, zk.ErrNoNode) && (st.do == doRead || st.do == doDelete) {
		s.err = nil
	}
	switch {
	case s.err != nil:
	case st.do == doCreate, st.do == doWrite:
		s.own, s.name, s.wrote, s.deletable = c, c.Name, true, st.deletable
		s.kept = s.sent.Add(st.lease.TTL)
	case st.do == doDelete:
		s.name = ""
	}
	return s
}
