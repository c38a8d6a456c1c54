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
//
// It returns nil, too, if the contender has left after an attempt that was not answered. After ErrUncertain the attempt may
// have been carried out.
func (r *Replica) ForceRelease(ctx context.Context, f Force) (Forced, error) {
	var forced Forced // by the last attempt that found the contender in front
	tried := false
	err := r.again(ctx, "force release", f.Path, func(ctx context.Context, q *pathQueue, requests *Requests) error {
		front, err := frontOf(ctx, requests)
		switch {
		case err != nil:
		case !f.Token.Valid():
			f.Token = front.Token // an attempt that follows must not end the successor
		case front.Token != f.Token:
			err = &FrontError{Token: front.Token}
		}
		if tried && (errors.Is(err, ErrNotFound) || errors.As(err, new(*FrontError))) {
			return left(ctx, requests, forced.Node)
		}
		if err != nil {
			return err
		}
		waits := front.Kind == recipes.KindLease && !front.Held // its node is deleted immediately
		forced = Forced{Node: front.Name, Token: front.Token, Notified: f.Mode != Now && !waits, TokenOnly: f.Mode == Now}
		err = r.end(ctx, q, requests, front, f)
		if errors.Is(err, ErrUncertain) {
			tried = true
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
		return err
	})
	if err != nil {
		return Forced{}, err
	}
	r.audit(Event{Action: ForceReleased, Path: f.Path, Node: forced.Node, Principal: f.By, Token: f.Token, Reason: f.Reason})
	return forced, nil
}

// end deletes the front or notifies it, as the mode of f says.
func (r *Replica) end(ctx context.Context, q *pathQueue, requests *Requests, front Contender, f Force) error {
	if f.Mode == Now {
		return again(requests.Delete(ctx, front.Name, -1))
	}
	q.Observe(front.Contender)
	if front.Revoked != nil && front.Kind != "" {
		return nil // by an earlier call
	}
	return r.revoke(ctx, requests, front, recipes.Revocation{By: f.By, Reason: f.Reason})
}

// left returns nil if a quorum answers that the node of a contender is missing, which an attempt that was not answered may
// have deleted. A listing alone can be of a server that lags.
func left(ctx context.Context, requests *Requests, name string) error {
	err := requests.Check(ctx, name)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s exists, and was not listed in front", errAgain, name)
	}
	return err
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
