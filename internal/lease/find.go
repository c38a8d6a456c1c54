// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Find returns the ticket of a lease that a request was granted, for a service whose callers present the token and no
// ticket: the service authenticates Principal and Owner. Of req, these, Path and RequestID count. The lease is in front of
// its queue.
//
// The error is ErrGone if the lease has ended, since the path has no contender or one with a newer token is in front:
// ErrReplaced if that is a lease of the same request. It is ErrNotOwner if the token is another contender's, or newer than
// the token of the front. ErrGone does not prove that the request ever had the lease.
//
// It costs no request if this replica wrote the lease last, otherwise a listing and a read; and before each error, a sync and
// the same again.
func (r *Replica) Find(ctx context.Context, req Request, token fencing.Token) (Ticket, error) {
	if c, ok := r.written.hinted(req.Path, req.hint()); ok && c.Token == token && req.standing(c, token) == nil {
		return req.ticket(c), nil
	}
	var found Ticket
	err := r.again(ctx, "find", req.Path, func(ctx context.Context, _ *pathQueue, requests *Requests) error {
		c, err := req.front(ctx, requests, token, seenFront)
		if errors.Is(err, ErrGone) || errors.Is(err, ErrNotOwner) {
			c, err = req.front(ctx, requests, token, frontOf)
		}
		found = req.ticket(c)
		return err
	})
	if err != nil {
		return Ticket{}, err
	}
	return found, nil
}

// front returns the contender in front of the queue, or why the token does not hold it.
func (r *Request) front(
	ctx context.Context, requests *Requests, token fencing.Token,
	read func(context.Context, *Requests) (Contender, error),
) (Contender, error) {
	c, err := read(ctx, requests)
	switch {
	case errors.Is(err, ErrNotFound):
		err = ErrGone
	case err == nil:
		err = r.standing(c, token)
	}
	return c, err
}

// standing returns why a token does not hold the lease of the request, if c is in front of the queue.
func (r *Request) standing(c Contender, token fencing.Token) error {
	own := ofOwner(c, r.Principal, r.Owner) && has(c.Lease.Requests, r.hash())
	switch {
	case c.Token < token, c.Token == token && !own:
		return ErrNotOwner
	case c.Token > token && own:
		return ErrReplaced
	case c.Token > token:
		return ErrGone
	}
	return nil
}

// ticket returns the ticket of the lease c of the request.
func (r *Request) ticket(c Contender) Ticket {
	return Ticket{Path: r.Path, Node: c.Name, Principal: r.Principal, Owner: r.Owner, Request: r.hash()}
}
