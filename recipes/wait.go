// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// errOtherParent reports that a node's name belongs to another life of the parent.
var errOtherParent = errors.New("parent was deleted and created again")

// await waits until no contender is ahead of the place. An event only causes a
// new listing: the listing decides.
//
// If the place's name is known to belong to the parent's current life, the node with the
// number before is the predecessor, if it exists: each number is given out once. So await
// watches it without a listing; otherwise, each join of a burst would cost a listing.
//
// If the predecessor is a lease, the client deletes it when its holder has stopped renewing it.
func (q *Queue) await(ctx context.Context, s *queueSession, p *place) error {
	reported := ""
	ahead := namePrefix(p.Tag, "") + sequenceSuffix(p.member.sequence-1)
	predictable := p.verified && !p.member.overflowed() && p.member.sequence > 0
	for {
		if !predictable {
			m, found, err := q.ahead(ctx, s, p)
			if err != nil || !found {
				return err
			}
			ahead = m.name
		}
		// GetW sets no watch on a node that is gone, where ExistsW would leave
		// one behind that can never fire: names do not recur.
		w, err := s.Watch(ctx, q.path+"/"+ahead, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			predictable = false
			continue
		}
		if err != nil {
			return err
		}
		predictable = false
		if ahead != reported {
			reported = ahead
			q.client.report.waiting(q.path, p.Path, reported)
		}
		q.observeWatched(w, ahead)
		own, err := s.Watch(ctx, p.Path, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			continue // the next listing shows whether it was deleted
		}
		if err != nil {
			return err
		}
		select {
		case <-w.Fired():
			predictable = w.Changed() // a lease that was renewed is still ahead
		case <-own.Fired():
		case <-p.Lost():
			return &Error{Op: "wait", Path: p.Path, Err: ErrDeleted}
		case <-ctx.Done():
			return &Error{Op: "wait", Path: p.Path, Err: ctx.Err()}
		}
		if over := s.Ended(); over != nil {
			return &Error{Op: "wait", Path: p.Path, Err: over}
		}
	}
}

// ahead returns the place's predecessor, if it has one.
//
// A listing that has the place's own node is at least as new as its creation, so it has
// every contender that joined before and still exists. A listing that is out of date can
// show a contender that has left, which costs time, but it never hides one that exists.
func (q *Queue) ahead(ctx context.Context, s *queueSession, p *place) (ahead member, found bool, err error) {
	for {
		lst, err := s.list(ctx, q.path)
		if err != nil {
			return member{}, false, err
		}
		ahead, found, listed, err := q.nearest(ctx, s, lst, p.member)
		if err != nil {
			return member{}, false, err
		}
		if !listed {
			// Deleted, or not visible on this server yet: the quorum decides.
			if err := s.Prove(ctx, p.Node); err != nil {
				return member{}, false, err
			}
			continue
		}
		if lst.parent.Czxid != p.Tag {
			q.forget()
			return member{}, false, &Error{Op: "wait", Path: p.Path, Err: errOtherParent}
		}
		s.MarkVerified(p.Node)
		q.recordNumber(lst.parent.Czxid, lst.highest, lst.overflowed)
		return ahead, found, nil
	}
}

// nearest is listing.nearest, also where numbers do not give the order.
func (q *Queue) nearest(ctx context.Context, s *queueSession, lst *listing, own member) (ahead member, found, listed bool, err error) {
	if lst.plain && !own.overflowed() {
		ahead, found, listed = lst.nearest(own)
		return ahead, found, listed, nil
	}
	members := slices.Clone(lst.members)
	i := slices.IndexFunc(members, func(m member) bool { return m.name == own.name })
	if i < 0 {
		return member{}, false, false, nil
	}
	members[i] = own
	members, err = q.orderable(ctx, s, members)
	if err != nil {
		return member{}, false, false, err
	}
	ahead, found = nearest(members, own)
	return ahead, found, true, nil
}

// awaitProof waits until the session is proved to live for T/4 at least.
//
// A server that is partitioned from its leader can show an empty queue to a waiter whose session
// has ended. So a contender that has no predecessor is not granted the claim before that.
func (s *queueSession) awaitProof(ctx context.Context, p *place) error {
	proved := func() bool { return s.Left(time.Now()) >= s.Timeout()/4 }
	for !proved() {
		if err := s.Prove(ctx, p.Node); err != nil {
			return err
		}
		if proved() {
			return nil
		}
		// Proved, but just after a silence: packets must be answered for some time
		// until the leader is known to hear from the session again.
		timer := time.NewTimer(s.Timeout() / 24)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &Error{Op: "grant", Path: p.Path, Err: fmt.Errorf("no proof that the session lives: %w", ctx.Err())}
		}
	}
	return nil
}

// grant makes a claim of a place that has no predecessor.
func (s *queueSession) grant(ctx context.Context, p *place) (*Claim, error) {
	if err := s.awaitProof(ctx, p); err != nil {
		return nil, err
	}
	c := &Claim{session: s, place: p, token: fencing.Token(p.member.czxid), done: make(chan struct{})}
	if err := s.Grant(p.Node, ending{c}); err != nil {
		return nil, &Error{Op: "grant", Path: p.Path, Err: err}
	}
	// The owner may have found the deadline passed a moment before, with
	// no claim to end.
	if err := c.Err(); err != nil {
		return nil, err
	}
	// And with no claim to end, its next check may be too late for this one.
	s.WakeWithin(min(s.Left(time.Now()), s.Timeout()/24))
	return c, nil
}
