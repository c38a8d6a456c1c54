// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// adopt takes over the request's node, which this call or another one has created. Its time
// began at a write that an observer may have seen long ago, so nothing is answered without a
// write of this call.
//
// c is the node as these requests have read it, or has only its name.
func (a *acquisition) adopt(ctx context.Context, q *queue, requests *recipes.Requests, c recipes.Contender) (Grant, error) {
	a.name = c.Name
	a.forget(false)
	// The read comes before the listing: if the node was granted when it was read, a later
	// listing shows no contender ahead.
	if c.Lease == nil || a.refusal(c) != nil {
		var err error
		c, err = read(ctx, requests, a.name, a.refusal)
		if errors.Is(err, zk.ErrNoNode) {
			a.forget(true)
			return Grant{}, fmt.Errorf("%w: %w", errAgain, err)
		}
		if err != nil {
			return Grant{}, err
		}
	}
	a.own = c
	for {
		names, err := q.soon(ctx, requests)
		if err != nil {
			return Grant{}, err
		}
		switch i := slices.Index(names, a.name); {
		case i == 0:
			return a.grant(ctx, requests)
		case i > 0:
			if err := a.write(ctx, requests, false, waitTTL); err != nil {
				return Grant{}, err
			}
			return Grant{}, a.queued(ctx, q, requests, names[:i])
		}
		if err := a.confirm(ctx, requests); err != nil {
			return Grant{}, err
		}
	}
}

// resume goes on with a waiter whose last poll this replica has answered, if it has. It writes the
// node over that answer's version, which shows that no other call has written it since. Contenders
// join only behind, so the nearest one ahead is the same until it leaves, and no listing is needed.
//
// A request that may share a lease first looks at the front of the queue instead.
func (a *acquisition) resume(ctx context.Context, requests *recipes.Requests) (resumed bool, err error) {
	if a.name != "" || a.req.Reentrant || a.req.Wait == 0 {
		return false, nil
	}
	last, ok := a.written.takeWaiter(a.req.Path, a.hint)
	if !ok || a.refusal(last.node) != nil {
		return false, nil
	}
	a.name, a.own = last.node.Name, last.node
	if err := a.write(ctx, requests, false, waitTTL); err != nil {
		return true, err
	}
	return true, &blockedError{requests: requests, ahead: last.ahead}
}

// refusal returns why the request cannot have the lease of that contender.
func (a *acquisition) refusal(c recipes.Contender) error {
	switch {
	case !a.is(c):
		return fmt.Errorf("%w: node belongs to another request", errAgain)
	case c.Revoked != nil:
		return &RevokedError{By: c.Revoked.By, Reason: c.Revoked.Reason}
	case has(c.Lease.Closed, a.hash):
		return ErrReleased
	case c.Lease.Reentrant != a.req.Reentrant:
		return &MismatchError{Field: "reentrant"}
	case hinted(c.Name, a.hint) && !maps.Equal(c.Lease.Metadata, a.req.Metadata):
		return &MismatchError{Field: "metadata"}
	}
	return nil
}

// enter shares the lease in front of the queue, if its owner and this request ask for that.
// requests are a set and not a count, so that a request which is sent again changes nothing.
func (a *acquisition) enter(ctx context.Context, requests *recipes.Requests) (g Grant, entered bool, err error) {
	names, err := requests.NamesSoon(ctx)
	if err != nil || len(names) == 0 {
		return Grant{}, false, err
	}
	c, err := requests.Read(ctx, names[0])
	if errors.Is(err, zk.ErrNoNode) {
		return Grant{}, false, nil
	}
	if err != nil {
		return Grant{}, false, err
	}
	if !ofOwner(c, a.req.Principal, a.req.Owner) || !c.Held || !c.Lease.Reentrant || hinted(c.Name, a.hint) {
		return Grant{}, false, nil
	}
	l := *c.Lease
	switch {
	case c.Revoked != nil:
		return Grant{}, false, &RevokedError{By: c.Revoked.By, Reason: c.Revoked.Reason}
	case has(l.Closed, a.hash):
		return Grant{}, false, ErrReleased
	case has(l.Requests, a.hash):
	case len(l.Requests)+len(l.Closed) >= maxRequests:
		return Grant{}, false, ErrExhausted
	default:
		l.Requests = append(slices.Clone(l.Requests), a.hash)
	}
	if err := a.gone(); err != nil {
		return Grant{}, false, err
	}
	l.TTL = max(l.TTL, a.req.TTL)
	sent := time.Now()
	c, err = a.Replica.write(ctx, requests, c, l)
	if err != nil {
		return Grant{}, false, err
	}
	a.own, a.name, a.repeated = c, c.Name, true // not this call's to delete
	g, err = a.granted(sent)
	return g, err == nil, err
}

// plain reports whether the lease of a ticket has one holder.
func (t *Ticket) plain() bool { return !strings.HasSuffix(t.Request, shared) }
