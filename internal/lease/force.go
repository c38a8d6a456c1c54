// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// ForceRelease ends the lease or the claim in front of a queue, if its token is f.Token.
// Otherwise the error is a *FrontError with the front's, or ErrNotFound. Without f.Token it ends the one that is in
// front when the call begins.
//
// In mode Safe the holder is notified: a lease is renewed no more and expires, and a claim of a
// library's client ends with recipes.ErrRevoked. Its node is deleted when the holder must have
// stopped. A waiter is deleted. If the holder does not read its record, such as one of another library,
// the error is ErrCannotNotify. In mode Now the node is deleted, and the holder is not notified.
func (r *Replica) ForceRelease(ctx context.Context, f Force) (Forced, error) {
	var forced Forced
	err := r.again(ctx, "force release", f.Path, func(ctx context.Context, q *pathQueue, requests *Requests) error {
		front, err := frontOf(ctx, requests)
		switch {
		case err != nil:
			return err
		case !f.Token.Valid():
			f.Token = front.Token // an attempt that follows must not end the successor
		case front.Token != f.Token:
			return &FrontError{Token: front.Token}
		}
		forced = Forced{Node: front.Name, Token: front.Token}
		if f.Mode == Now {
			forced.TokenOnly = true
			return again(requests.Delete(ctx, front.Name, -1))
		}
		forced.Notified = true
		q.Observe(front.Contender)
		if front.Revoked != nil && front.Kind != "" {
			return nil // by an earlier call
		}
		return r.revoke(ctx, requests, front, recipes.Revocation{By: f.By, Reason: f.Reason})
	})
	if err != nil {
		return Forced{}, err
	}
	r.audit(Event{Action: ForceReleased, Path: f.Path, Node: forced.Node, Principal: f.By, Token: f.Token, Reason: f.Reason})
	return forced, nil
}

// revoke notifies a contender that it has to stop.
func (r *Replica) revoke(ctx context.Context, requests *Requests, c Contender, why recipes.Revocation) error {
	switch {
	case c.Kind == recipes.KindLease && !c.Held: // a waiter
		return again(requests.Delete(ctx, c.Name, c.Version))
	case c.Kind == recipes.KindLease:
		l := *c.Lease
		l.Revoked = &why
		_, err := r.write(ctx, requests, c, l)
		return err
	case c.Revocable():
		err := requests.Revoke(ctx, c.Name, why)
		if errors.Is(err, ErrUncertain) {
			err = fmt.Errorf("%w: %w", errAgain, err) // the next read shows whether it was carried out
		}
		if errors.Is(err, zk.ErrNoAuth) { // the record is the holder's, and so is its ACL
			err = fmt.Errorf("%w: %w", ErrCannotNotify, err)
		}
		return again(err)
	}
	return ErrCannotNotify
}

// again adds errAgain to the error of a write that another one overtook.
func again(err error) error {
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// frontOf reads the first contender. The server may lag, and show none or another one, so it has to
// catch up first.
func frontOf(ctx context.Context, requests *Requests) (Contender, error) {
	if err := requests.Sync(ctx); err != nil {
		return Contender{}, err
	}
	return seenFront(ctx, requests)
}

// seenFront reads the first contender, as the server sees it.
func seenFront(ctx context.Context, requests *Requests) (Contender, error) {
	for {
		names, err := requests.Names(ctx)
		if err != nil {
			return Contender{}, err
		}
		if len(names) == 0 {
			return Contender{}, ErrNotFound
		}
		c, err := requests.Read(ctx, names[0])
		if !errors.Is(err, zk.ErrNoNode) {
			return c, err
		}
	}
}
