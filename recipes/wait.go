// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// errOtherParent says that a node's name belongs to another life of the parent.
var errOtherParent = errors.New("parent was deleted and made again")

// await waits until nobody is ahead of the place. An event only says that it is
// time to look again: what a listing shows decides.
func (l *Line) await(ctx context.Context, s *session, p *place) error {
	reported := ""
	for {
		ahead, found, err := l.ahead(ctx, s, p)
		if err != nil || !found {
			return err
		}
		if ahead.name != reported {
			reported = ahead.name
			l.client.report.waiting(p, reported)
		}
		// GetW sets no watch on a node that is gone, where ExistsW would leave
		// one behind that can never fire: names do not recur.
		w, err := s.watch(ctx, l.path+"/"+ahead.name, watchNode)
		if errors.Is(err, zk.ErrNoNode) || brokenOff(err) && s.ctx.Err() == nil {
			continue
		}
		if err != nil {
			return &Error{Op: "watch", Path: l.path + "/" + ahead.name, Err: err}
		}
		own, err := s.watch(ctx, p.path, watchNode)
		if errors.Is(err, zk.ErrNoNode) || brokenOff(err) && s.ctx.Err() == nil {
			continue // what became of it is seen by looking again
		}
		if err != nil {
			return &Error{Op: "watch", Path: p.path, Err: err}
		}
		select {
		case <-w.fired:
		case <-own.fired:
		case <-p.bereaved:
			return &Error{Op: "wait", Path: p.path, Err: ErrDeleted}
		case <-ctx.Done():
			return &Error{Op: "wait", Path: p.path, Err: ctx.Err()}
		}
		if s.ctx.Err() != nil {
			return &Error{Op: "wait", Path: p.path, Err: context.Cause(s.ctx)}
		}
	}
}

// ahead returns who is directly ahead of the place, if anybody is.
//
// A listing that has our own node is at least as new as its creation, so it is
// complete as to everybody who came before: one that is out of date can show
// somebody who has gone, which costs time, but never hide one who is there.
func (l *Line) ahead(ctx context.Context, s *session, p *place) (ahead member, found bool, err error) {
	for {
		children, parent, err := s.children(ctx, l.path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return member{}, false, err
		}
		members := parseMembers(children)
		i := slices.IndexFunc(members, func(m member) bool { return m.name == p.member.name })
		if i < 0 {
			// Deleted, or not to be seen yet: the quorum knows.
			if err := s.prove(ctx, p); err != nil {
				return member{}, false, err
			}
			continue
		}
		if parent.Czxid != p.tag {
			l.forget()
			return member{}, false, &Error{Op: "wait", Path: p.path, Err: errOtherParent}
		}
		members[i] = p.member
		l.saw(members)
		members, err = l.orderable(ctx, s, members)
		if err != nil {
			return member{}, false, err
		}
		ahead, found := nearest(members, p.member)
		return ahead, found, nil
	}
}

// prove asks the quorum whether the session lives and the place's node exists.
func (s *session) prove(ctx context.Context, p *place) error {
	for {
		_, err := call(ctx, s, func(*zk.Conn) (struct{}, error) {
			return struct{}{}, s.check([]*place{p}, time.Now())
		})
		if err == nil {
			return nil
		}
		if !brokenOff(err) || ctx.Err() != nil || s.ctx.Err() != nil {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return &Error{Op: "check", Path: p.path, Err: err}
		}
	}
}

// grant makes a claim of a place that nobody is ahead of.
//
// That alone is not enough: a server that was cut off from its leader can show an
// empty line to a waiter whose session has ended. So a claim is granted only
// while the session is proved to live for T/4 at least, and otherwise waits for
// fresh proof.
func (s *session) grant(ctx context.Context, p *place) (*Claim, error) {
	c := &Claim{session: s, place: p, done: make(chan struct{})}
	for {
		if s.trust.left(time.Now()) >= s.timeout()/4 {
			s.mu.Lock()
			over, orphaned := s.over, p.orphaned
			if over == nil && !orphaned {
				p.claim = c
				s.claims[c] = struct{}{}
			}
			s.mu.Unlock()
			switch {
			case over != nil:
				return nil, &Error{Op: "grant", Path: p.path, Err: over}
			case orphaned:
				return nil, &Error{Op: "grant", Path: p.path, Err: ErrDeleted}
			}
			// The keeper may have found the deadline passed a moment before, with
			// no claim to end.
			if err := c.Err(); err != nil {
				return nil, err
			}
			// And with no claim to end, it may not mean to look again in time.
			s.look(min(s.trust.left(time.Now()), s.timeout()/24))
			return c, nil
		}
		if err := s.prove(ctx, p); err != nil {
			return nil, err
		}
		if s.trust.left(time.Now()) >= s.timeout()/4 {
			continue
		}
		// Proved, but on the heels of a silence: it takes some time of answered
		// packets until the session is known to be heard by the leader again.
		timer := time.NewTimer(s.timeout() / 24)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &Error{Op: "grant", Path: p.path, Err: fmt.Errorf("no proof that the session lives: %w", ctx.Err())}
		}
	}
}
