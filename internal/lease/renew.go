// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Renew extends a lease: it is valid for at least ttl from the sending of the request that was
// received at that instant. The TTL of a lease never decreases: a former version could outlast
// the holder's knowledge of the new one.
//
// The error is ErrGone, ErrReleased, ErrExhausted or a *RevokedError if the lease cannot be
// renewed. After ErrUncertain it may have been.
func (r *Replica) Renew(ctx context.Context, received time.Time, t Ticket, ttl time.Duration) (Grant, error) {
	ttl = ttl.Truncate(time.Millisecond)
	if ttl < MinTTL || ttl > r.opts.MaxTTL {
		return Grant{}, &recipes.Error{Op: "renew", Path: t.Path, Err: fmt.Errorf("TTL %v is not between %v and %v", ttl, MinTTL, r.opts.MaxTTL)}
	}
	var grant Grant
	err := r.again(ctx, "renew", t.Path, func(bounded context.Context, _ *pathQueue, requests *Requests) error {
		c, err := r.lastOf(bounded, requests, t)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return ErrGone
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		l := *c.Lease
		l.TTL = max(l.TTL, ttl)
		sent := time.Now()
		if c, err = r.write(bounded, requests, c, l); err != nil {
			r.written.forget(t.Path, t.Node) // another replica has written it, for instance
			return err
		}
		r.written.set(t.Path, write{node: c})
		grant = grantOf(t.Path, c, t.Request, received, sent)
		return nil
	})
	if err == nil {
		r.audit(Event{Action: Renewed, Path: t.Path, Node: t.Node, Principal: t.Principal, Owner: t.Owner, Token: grant.Token})
	}
	return grant, err
}

// lastOf returns the lease of a ticket as this replica wrote it last, or otherwise as it reads it.
// If another client has written it since, a write over it is refused.
func (r *Replica) lastOf(ctx context.Context, requests *Requests, t Ticket) (Contender, error) {
	if c, ok := r.written.node(t.Path, t.Node); ok && t.refusal(c) == nil {
		return c, nil
	}
	return read(ctx, requests, t.Node, t.refusal)
}

// refusal returns why a ticket does not hold the lease of that contender.
func (t *Ticket) refusal(c Contender) error {
	switch {
	case !ofOwner(c, t.Principal, t.Owner):
		return ErrGone
	case c.Revoked != nil:
		return &RevokedError{By: c.Revoked.By, Reason: c.Revoked.Reason}
	case has(c.Lease.Closed, t.Request):
		return ErrReleased
	case !has(c.Lease.Requests, t.Request), !c.Held:
		return ErrGone
	}
	return nil
}
