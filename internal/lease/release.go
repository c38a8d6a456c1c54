// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Release ends the ticket's part in a lease; the last release ends the lease. It returns nil
// if this or an earlier call released it, and ErrGone if the lease has ended: before the end of
// Grant.Valid, that was an earlier release or a forced one. After ErrUncertain the lease may
// have been released.
func (r *Replica) Release(ctx context.Context, t Ticket) error {
	release := r.releaseShared
	if !strings.HasSuffix(t.Request, shared) { // the lease has one holder
		release = r.releasePlain
	}
	tried := false
	err := r.again(ctx, "release", t.Path, func(ctx context.Context, q *pathQueue, requests *Requests) error {
		err := release(ctx, requests, t)
		switch {
		case errors.Is(err, zk.ErrNoNode) && tried: // by the attempt that was not answered
			err = nil
		case errors.Is(err, zk.ErrNoNode):
			err = ErrGone
		case errors.Is(err, ErrUncertain):
			tried = true
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
		if err == nil {
			r.written.forget(t.Path, t.Node)
			q.empty.Store(!q.contended.Load()) // if not, the next join shows it
		}
		return err
	})
	if err == nil {
		r.audit(Event{Action: Released, Path: t.Path, Node: t.Node, Principal: t.Principal, Owner: t.Owner})
	}
	return err
}

// releasePlain deletes the lease of one holder, without a read.
func (r *Replica) releasePlain(ctx context.Context, requests *Requests, t Ticket) error {
	return requests.Delete(ctx, t.Node, -1)
}

// releaseShared moves the request to the closed ones, or deletes the lease if it is the last.
func (r *Replica) releaseShared(ctx context.Context, requests *Requests, t Ticket) error {
	c, err := read(ctx, requests, t.Node, t.refusal)
	revoked := errors.Is(err, ErrRevoked)
	switch {
	case errors.Is(err, ErrReleased):
		return nil
	case err != nil && !revoked:
		return err
	}
	l := *c.Lease
	l.Requests = without(l.Requests, t.Request)
	l.Closed = append(slices.Clone(l.Closed), t.Request)
	if len(l.Requests) == 0 {
		err := requests.Delete(ctx, t.Node, c.Version)
		if errors.Is(err, zk.ErrBadVersion) {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
		return err
	}
	if revoked {
		return err // the record is never written again: the other requests hold it until it expires
	}
	_, err = r.write(ctx, requests, c, l)
	return err
}
