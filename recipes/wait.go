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

// errOtherParent says that a node's name belongs to another life of the parent.
var errOtherParent = errors.New("parent was deleted and made again")

// await waits until no contender is ahead of the place. An event only says that it is
// time to look again: what a listing shows decides.
//
// Of a place whose name is known to belong to the parent's present life, the node with
// the number before is the predecessor, if it exists: each number is given out once. So
// it is watched without a listing, of which a burst of joins would else cost one each.
func (l *Line) await(ctx context.Context, s *queueSession, p *place) error {
	reported := ""
	predictable := p.verified && !p.member.late() && p.member.sequence > 0
	for {
		ahead := namePrefix(p.Tag, "") + sequenceSuffix(p.member.sequence-1)
		if !predictable {
			m, found, err := l.ahead(ctx, s, p)
			if err != nil || !found {
				return err
			}
			ahead = m.name
		}
		// GetW sets no watch on a node that is gone, where ExistsW would leave
		// one behind that can never fire: names do not recur.
		w, err := s.Watch(ctx, l.path+"/"+ahead, session.WatchNode)
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
			l.client.report.waiting(l.path, p.Path, reported)
		}
		own, err := s.Watch(ctx, p.Path, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			continue // what became of it is seen by looking again
		}
		if err != nil {
			return err
		}
		select {
		case <-w.Fired():
		case <-own.Fired():
		case <-p.Bereaved():
			return &Error{Op: "wait", Path: p.Path, Err: ErrDeleted}
		case <-ctx.Done():
			return &Error{Op: "wait", Path: p.Path, Err: ctx.Err()}
		}
		if over := s.Ended(); over != nil {
			return &Error{Op: "wait", Path: p.Path, Err: over}
		}
	}
}

// ahead returns the member directly ahead of the place, if any is.
//
// A listing that has our own node is at least as new as its creation, so it is
// complete as to every contender that came before: one that is out of date can show
// one that has gone, which costs time, but never hide one that is there.
func (l *Line) ahead(ctx context.Context, s *queueSession, p *place) (ahead member, found bool, err error) {
	for {
		lst, err := s.list(ctx, l.path)
		if err != nil {
			return member{}, false, err
		}
		ahead, found, listed, err := l.nearest(ctx, s, lst, p.member)
		if err != nil {
			return member{}, false, err
		}
		if !listed {
			// Deleted, or not to be seen yet: the quorum knows.
			if err := s.Prove(ctx, p.Node); err != nil {
				return member{}, false, err
			}
			continue
		}
		if lst.parent.Czxid != p.Tag {
			l.forget()
			return member{}, false, &Error{Op: "wait", Path: p.Path, Err: errOtherParent}
		}
		s.Vouch(p.Node)
		l.saw(lst.parent.Czxid, lst.highest, lst.late)
		return ahead, found, nil
	}
}

// nearest is listing.nearest, also where numbers do not tell the order.
func (l *Line) nearest(ctx context.Context, s *queueSession, lst *listing, own member) (ahead member, found, listed bool, err error) {
	if lst.plain && !own.late() {
		ahead, found, listed = lst.nearest(own)
		return ahead, found, listed, nil
	}
	members := slices.Clone(lst.members)
	i := slices.IndexFunc(members, func(m member) bool { return m.name == own.name })
	if i < 0 {
		return member{}, false, false, nil
	}
	members[i] = own
	members, err = l.orderable(ctx, s, members)
	if err != nil {
		return member{}, false, false, err
	}
	ahead, found = nearest(members, own)
	return ahead, found, true, nil
}

// grant makes a claim of a place that nobody is ahead of.
//
// That alone is not enough: a server that was cut off from its leader can show an
// empty line to a waiter whose session has ended. So a claim is granted only
// while the session is proved to live for T/4 at least, and otherwise waits for
// fresh proof.
func (s *queueSession) grant(ctx context.Context, p *place) (*Claim, error) {
	for s.Left(time.Now()) < s.Timeout()/4 {
		if err := s.Prove(ctx, p.Node); err != nil {
			return nil, err
		}
		if s.Left(time.Now()) >= s.Timeout()/4 {
			break
		}
		// Proved, but on the heels of a silence: it takes some time of answered
		// packets until the session is known to be heard by the leader again.
		timer := time.NewTimer(s.Timeout() / 24)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &Error{Op: "grant", Path: p.Path, Err: fmt.Errorf("no proof that the session lives: %w", ctx.Err())}
		}
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
	// And with no claim to end, it may not mean to look again in time.
	s.Look(min(s.Left(time.Now()), s.Timeout()/24))
	return c, nil
}
