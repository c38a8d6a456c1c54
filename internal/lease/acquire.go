// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// waitTTL is the TTL of a waiter, which is renewed every renewEvery.
	waitTTL    = 30 * time.Second
	renewEvery = 10 * time.Second

	// askWithin is the TTL of a waiter whose poll was answered, until the caller asks again, which it does immediately. A caller
	// that has died blocks the queue for so long.
	askWithin = 5 * time.Second

	// maxPoll is below the idle timeouts of load balancers.
	maxPoll = 20 * time.Second

	maxRecord   = 8 << 10 // bytes of identity and metadata: each contender behind reads the record
	maxRequests = 64      // in one lease
)

// Acquire asks for a lease. received is when the caller's request was received.
//
// It waits for min(req.Wait, 20 s) at most, or for req.Wait if req.Unbroken is set. If wait time is
// left then, or the replica drains, the error is a
// *WaitingError, and the caller asks again with the same RequestID within the AskWithin of that error. If the lock is
// held, the error is a *HeldError and nothing is left in the queue, unless another call serves
// the same request.
//
// ctx is the caller's: if it ends, Acquire deletes the node that it has written, within the
// session timeout, unless another call has written it since. After ErrUncertain the lease may
// be held.
func (r *Replica) Acquire(ctx context.Context, received time.Time, req Request) (Grant, error) {
	q, err := r.queues.get(req.Path)
	if err == nil {
		err = r.check(&req)
	}
	if err != nil {
		return Grant{}, &recipes.Error{Op: "acquire", Path: req.Path, Err: err}
	}
	q.acquiring.Add(1)
	defer q.acquired()
	s := state{req: req, received: received, hint: req.hint(), hash: req.hash()}
	if req.Wait > 0 && !req.Reentrant { // a request that may share a lease looks at the front of the queue first
		s.polled, _ = r.written.takeWaiter(req.Path, s.hint)
	}
	a := &acquisition{replica: r, queue: q, until: received.Add(req.poll()), state: s}
	last := a.run(ctx)
	if last.remember != nil {
		r.written.set(req.Path, *last.remember)
	}
	if last.do == doRefuse {
		return Grant{}, &recipes.Error{Op: "acquire", Path: req.Path, Err: last.err}
	}
	g := last.grant
	g.Waited = a.waited
	r.audit(Event{Action: Granted, Path: g.Path, Node: g.Ticket.Node, Principal: req.Principal, Owner: g.Owner, RequestID: req.RequestID, Token: g.Token})
	return g, nil
}

// An acquisition is one call of Acquire.
type acquisition struct {
	replica *Replica
	queue   *pathQueue
	until   time.Time     // end of the poll
	waited  time.Duration // behind other contenders

	requests *Requests // in the session of the attempt
	listing  *listing  // the last one
	read     *Contender
	state    state
}

// run carries out one step after the other, and returns the last one: a grant or a refusal. The attempts before a wait share one
// bound, and so do those after it.
func (a *acquisition) run(ctx context.Context) step {
	var bounded context.Context
	cancel := func() {}
	defer func() { cancel() }()
	st := step{do: doSession, then: a.state}
	for st.do != doGrant && st.do != doRefuse {
		if st.do == doSession && st.then.attempt == 0 {
			cancel()
			bounded, cancel = a.replica.bound(ctx)
		}
		if st.do == doWatch {
			a.watch(ctx, &st)
		} else {
			a.carryOut(bounded, &st)
		}
		s := &a.state
		s.now, s.gone, s.late = time.Now(), ctx.Err(), bounded.Err() != nil
		s.drained, s.empty = a.replica.isDrained(), a.queue.empty.Load()
		s.first = s.wrote && a.queue.line.isFirst(s.name)
		st = next(*s, a.listing, a.read)
	}
	return st
}

// carryOut carries out a step that does not wait for another contender, and stores the answer. After the end of the session
// the error is errAgain.
func (a *acquisition) carryOut(ctx context.Context, st *step) {
	var c Contender
	var err error
	switch st.do {
	case doSession:
		a.requests, err = NewRequests(ctx, a.queue.Queue)
	case doList:
		a.listing = &listing{by: st.by}
		a.listing.names, err = a.queue.list(ctx, a.requests, st.by)
	case doSync:
		err = a.requests.Sync(ctx)
	case doCheck:
		err = a.requests.Check(ctx, st.name)
	case doRead:
		a.read = nil
		if c, err = a.requests.Read(ctx, st.name); err == nil {
			a.queue.Observe(c.Contender)
			a.read = &c
		}
	case doCreate:
		st.lease.Write = newID()
		c, st.then.alone, err = a.requests.Create(ctx, st.then.hint, st.lease, a.replica.opts.ACL)
		a.queue.empty.Store(false)
		a.queue.contended.Store(!st.then.alone)
	case doWrite:
		c, err = a.replica.write(ctx, a.requests, st.over, st.lease)
	case doDelete:
		err = a.requests.Delete(ctx, st.over.Name, st.over.Version)
	}
	if err != nil && a.requests != nil && a.requests.Ended() != nil {
		err = fmt.Errorf("%w: %w", errAgain, err)
	}
	a.state = st.stored(c, err)
}

// check returns what is wrong with a request. It rounds the TTL down to what a record can hold.
func (r *Replica) check(req *Request) error {
	req.TTL = req.TTL.Truncate(time.Millisecond)
	size := sizeOf(req.Principal, req.Owner, req.Metadata)
	switch {
	case req.Owner == "":
		return errors.New("owner is empty")
	case req.RequestID == "":
		return errors.New("request id is empty")
	case req.TTL < MinTTL || req.TTL > r.opts.MaxTTL:
		return fmt.Errorf("TTL %v is not between %v and %v", req.TTL, MinTTL, r.opts.MaxTTL)
	case req.Wait < 0:
		return fmt.Errorf("wait %v is negative", req.Wait)
	case size > maxRecord:
		return fmt.Errorf("principal, owner and metadata of %d bytes are over the limit of %d", size, maxRecord)
	}
	return nil
}

// poll returns how long one call waits for the request.
func (r *Request) poll() time.Duration {
	if r.Unbroken {
		return r.Wait
	}
	return min(r.Wait, maxPoll)
}
