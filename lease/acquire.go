// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

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
	if err := r.check(&req); err != nil {
		return Grant{}, &recipes.Error{Op: "acquire", Path: req.Path, Err: err}
	}
	a := &acquisition{
		Replica: r, caller: ctx, received: received, req: req, hint: req.hint(), hash: req.hash(),
		until: received.Add(req.poll()),
	}
	var grant Grant
	for {
		var blocked *blockedError
		err := r.again(ctx, "acquire", req.Path, func(ctx context.Context, q *queue, requests *recipes.Requests) (err error) {
			grant, err = a.attempt(ctx, q, requests)
			return err
		})
		if errors.As(err, &blocked) {
			began := time.Now()
			err = a.wait(blocked)
			a.waited += time.Since(began)
			if err == nil {
				continue
			}
		}
		if err == nil {
			grant.Waited, grant.Repeated = a.waited, a.repeated
			r.audit(Event{Action: Granted, Path: req.Path, Node: grant.Ticket.Node, Principal: req.Principal, Owner: req.Owner, RequestID: req.RequestID, Token: grant.Token})
			return grant, nil
		}
		if !errors.Is(err, ErrUncertain) { // then the caller keeps its position, and asks again
			a.leave(ctx)
		}
		var e *recipes.Error
		if !errors.As(err, &e) {
			err = &recipes.Error{Op: "acquire", Path: req.Path, Err: err}
		}
		return Grant{}, err
	}
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

// sizeOf returns the bytes of identities and metadata in a record.
func sizeOf(principal, owner string, metadata map[string]string) int {
	size := len(principal) + len(owner)
	for k, v := range metadata {
		size += len(k) + len(v)
	}
	return size
}

// An acquisition is one call of Acquire.
type acquisition struct {
	*Replica
	caller     context.Context
	received   time.Time
	req        Request
	hint, hash string
	until      time.Time         // end of the poll
	waited     time.Duration     // behind other contenders
	repeated   bool              // an earlier call may have been granted the lease
	synced     *recipes.Requests // whose server is not older than this call

	name      string            // of the request's node, empty if it has none that is known
	own       recipes.Contender // as this call has written it last
	wrote     bool              // own is set
	deletable bool              // own may be deleted if the caller goes: no other call can have granted it
}

// gone returns the error of a caller that has gone.
func (a *acquisition) gone() error { return a.caller.Err() }

// attempt acquires the lease, or returns a *blockedError if it has to wait.
func (a *acquisition) attempt(ctx context.Context, q *queue, requests *recipes.Requests) (Grant, error) {
	if a.wrote { // the nearest contender ahead has left
		if q.line.isFirst(a.name) {
			return a.grant(ctx, requests)
		}
		return a.decide(ctx, q, requests, q.newest)
	}
	if resumed, err := a.resume(ctx, requests); resumed {
		return Grant{}, err
	}
	if a.req.Reentrant && a.name == "" {
		if grant, entered, err := a.enter(ctx, requests); entered || err != nil {
			return grant, err
		}
	}
	if a.name != "" {
		return a.adopt(ctx, q, requests, recipes.Contender{Name: a.name})
	}
	held := q.empty.Load()
	if !held {
		// If the listing is not the newest, it may not show the node of an earlier call. Then the one
		// in decide does.
		list := q.recent
		if a.req.Wait == 0 {
			list = q.soon
		}
		names, err := list(ctx, requests)
		if err != nil {
			return Grant{}, err
		}
		c, err := a.find(ctx, requests, names)
		switch {
		case err != nil:
			return Grant{}, err
		case c.Name != "":
			return a.adopt(ctx, q, requests, c)
		case len(names) > 0 && a.req.Wait == 0 && a.synced != requests:
			// A server that lags may not show the lease of an earlier call for this request.
			if err := requests.Sync(ctx); err != nil {
				return Grant{}, err
			}
			a.synced = requests
			return a.attempt(ctx, q, requests)
		case len(names) > 0 && a.req.Wait == 0:
			return Grant{}, a.held(ctx, q, requests, names)
		}
		held = len(names) == 0
	}
	if err := a.gone(); err != nil {
		return Grant{}, err
	}
	sent := time.Now()
	alone, err := a.create(ctx, q, requests, held)
	switch {
	case err != nil:
		return Grant{}, err
	case alone && held:
		return a.granted(sent)
	}
	return a.decide(ctx, q, requests, q.soon)
}

// create creates the request's node.
func (a *acquisition) create(ctx context.Context, q *queue, requests *recipes.Requests, held bool) (alone bool, err error) {
	l := recipes.Lease{
		TTL: waitTTL, Held: held, Write: newID(), Principal: a.req.Principal, Owner: a.req.Owner,
		Reentrant: a.req.Reentrant, Metadata: maps.Clone(a.req.Metadata), Requests: []string{a.hash},
	}
	if held {
		l.TTL = a.req.TTL
	}
	c, alone, err := requests.Create(ctx, a.hint, l, a.opts.ACL)
	q.empty.Store(false)
	q.contended.Store(!alone)
	if errors.Is(err, ErrUncertain) {
		return false, fmt.Errorf("%w: %w", errAgain, err)
	}
	if err == nil {
		a.record(c, true)
	}
	return alone, err
}

// record records that this call has written its node.
func (a *acquisition) record(c recipes.Contender, deletable bool) {
	a.name, a.own, a.wrote, a.deletable = c.Name, c, true, deletable
}

// forget records that the node is missing, or that another call may have written it.
func (a *acquisition) forget(missing bool) {
	a.wrote, a.deletable = false, false
	if missing {
		a.name = ""
	}
}

// find reads the first of names that is a node of this request. It returns a zero Contender if none
// is.
func (a *acquisition) find(ctx context.Context, requests *recipes.Requests, names []string) (recipes.Contender, error) {
	for _, name := range names {
		if !hinted(name, a.hint) {
			continue
		}
		c, err := requests.Read(ctx, name)
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return recipes.Contender{}, err
		case a.is(c):
			return c, nil
		}
	}
	return recipes.Contender{}, nil
}

// is reports whether the contender was created by this request.
func (a *acquisition) is(c recipes.Contender) bool {
	return ofOwner(c, a.req.Principal, a.req.Owner) && (has(c.Lease.Requests, a.hash) || has(c.Lease.Closed, a.hash))
}

// decide lists the queue with list until it shows the request's own node, which this call has
// written. It grants the lease if no contender is ahead.
func (a *acquisition) decide(ctx context.Context, q *queue, requests *recipes.Requests, list lister) (Grant, error) {
	for {
		names, err := list(ctx, requests)
		if err != nil {
			return Grant{}, err
		}
		i := slices.Index(names, a.name)
		if i < 0 {
			if err := a.confirm(ctx, requests); err != nil {
				return Grant{}, err
			}
			continue
		}
		if a.own.Version == 0 {
			lower, err := a.find(ctx, requests, names[:i])
			if err != nil {
				return Grant{}, err
			}
			if lower.Name != "" {
				return a.merge(ctx, q, requests, lower)
			}
		}
		if i == 0 {
			return a.grant(ctx, requests)
		}
		return Grant{}, a.queued(ctx, q, requests, names[:i])
	}
}

// confirm asks a quorum whether the request's node exists.
func (a *acquisition) confirm(ctx context.Context, requests *recipes.Requests) error {
	err := requests.Check(ctx, a.name)
	if errors.Is(err, zk.ErrNoNode) {
		a.forget(true)
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// merge leaves this call's node for a lower one of the same request.
func (a *acquisition) merge(ctx context.Context, q *queue, requests *recipes.Requests, lower recipes.Contender) (Grant, error) {
	if err := requests.Delete(ctx, a.name, 0); err != nil && !errors.Is(err, zk.ErrNoNode) {
		a.forget(false)
		return Grant{}, fmt.Errorf("%w: %w", errAgain, err) // another call has written it
	}
	a.forget(true)
	return a.adopt(ctx, q, requests, lower)
}

// grant writes the node as held. No contender is ahead in a listing that has the node.
func (a *acquisition) grant(ctx context.Context, requests *recipes.Requests) (Grant, error) {
	ttl := a.req.TTL
	if a.own.Held {
		ttl = max(ttl, a.own.TTL)
		a.repeated = !a.deletable // this call did not create it
	}
	sent := time.Now()
	if err := a.write(ctx, requests, true, ttl); err != nil {
		return Grant{}, err
	}
	return a.granted(sent)
}

// write writes the node over the version in a.own, which this call has read or written.
func (a *acquisition) write(ctx context.Context, requests *recipes.Requests, held bool, ttl time.Duration) error {
	if err := a.gone(); err != nil {
		return err
	}
	// A lease that may have been granted before stays if the caller goes.
	deletable := !held || !a.own.Held || a.deletable
	l := *a.own.Lease
	l.Held, l.TTL = held, ttl
	c, err := a.Replica.write(ctx, requests, a.own, l)
	if err != nil {
		a.forget(errors.Is(err, zk.ErrNoNode))
		return err
	}
	a.record(c, deletable)
	return nil
}

// granted returns the grant that the last write made, unless the caller has gone.
func (a *acquisition) granted(sent time.Time) (Grant, error) {
	if err := a.gone(); err != nil {
		return Grant{}, err
	}
	a.written.set(a.req.Path, write{node: a.own})
	return grantOf(a.req.Path, a.own, a.hash, a.received, sent), nil
}

// grantOf returns the grant that a write has made, which was first sent at that instant. The
// observers count from a later one.
func grantOf(path string, c recipes.Contender, hash string, received, sent time.Time) Grant {
	valid := c.TTL + max(0, sent.Sub(received))/32*31
	return Grant{
		Path: path, Owner: c.Owner, Token: c.Token, TTL: c.TTL, Valid: valid, Expires: received.Add(valid),
		Ticket: Ticket{Path: path, Node: c.Name, Principal: c.Lease.Principal, Owner: c.Owner, Request: hash},
	}
}

// queued returns how the request goes on behind the contenders ahead.
func (a *acquisition) queued(ctx context.Context, q *queue, requests *recipes.Requests, ahead []string) error {
	if a.req.Wait == 0 {
		if err := a.remove(ctx, requests); err != nil {
			return err
		}
		return a.held(ctx, q, requests, ahead)
	}
	if a.own.Held {
		if err := a.write(ctx, requests, false, waitTTL); err != nil {
			return err
		}
	}
	return &blockedError{requests: requests, ahead: ahead[len(ahead)-1]}
}

// remove deletes the version of the node that this call has written. It returns ErrSuperseded
// if another call has written the node.
func (a *acquisition) remove(ctx context.Context, requests *recipes.Requests) error {
	err := requests.Delete(ctx, a.name, a.own.Version)
	a.forget(true)
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return ErrSuperseded
	case errors.Is(err, zk.ErrNoNode):
		return nil
	}
	return err
}

// leave deletes the node of a caller that has gone or failed, if this call may.
func (a *acquisition) leave(ctx context.Context) {
	if !a.wrote || !a.deletable {
		return
	}
	ctx, cancel := a.bound(ctx)
	defer cancel()
	// If it fails, the observers delete the node.
	_ = a.once(ctx, a.queueOf(), func(ctx context.Context, _ *queue, requests *recipes.Requests) error {
		return a.remove(ctx, requests)
	})
}

func (a *acquisition) queueOf() *queue {
	q, _ := a.queues.get(a.req.Path) // the path was accepted before
	return q
}
