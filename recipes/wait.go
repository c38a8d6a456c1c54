// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// errOtherParent reports that a node's name belongs to another life of the parent.
var errOtherParent = errors.New("parent was deleted and created again")

// await waits until the claim of the place can be granted: see order.decide.
//
// If the place's name is known to belong to the parent's current life, the node with the
// number before is the predecessor, if it exists: each number is given out once. So await
// watches it without a listing; otherwise, each join of a burst would cost a listing.
//
// If the predecessor is a lease, the client deletes it when its holder has stopped renewing it.
func (q *Queue) await(ctx context.Context, s *client.Session, p *place) error {
	reported := ""
	var detached <-chan struct{} // closed if the client has changed servers since the listing
	d := p.predicted()
	for {
		if d.Granted() {
			var err error
			_, detached = s.Served()
			if d, err = q.decide(ctx, s, p); err != nil || d.Granted() {
				return err
			}
		}
		nearest := d.Ahead[len(d.Ahead)-1]
		ahead := nearest.Name
		// GetW sets no watch on a node that is gone, where ExistsW would leave
		// one behind that can never fire: names do not recur.
		w, err := s.Watch(ctx, q.path+"/"+ahead, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) || err == nil && p.mode == Read && sharedWatched(w, nearest) {
			if granted, err := q.passNearest(ctx, s, p, &d, detached); granted || err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if ahead != reported {
			reported = ahead
			p.behind = true
			q.client.Report().Waiting(q.path, p.Path, reported)
		}
		q.observeWatched(w, ahead)
		left, err := q.awaitEvent(ctx, s, p, w)
		switch {
		case err != nil:
			return err
		case left == nodeChanged:
			continue // a lease that was renewed is still ahead
		case left == listAgain:
			d = protocol.Decision{}
			continue
		}
		if granted, err := q.passNearest(ctx, s, p, &d, detached); granted || err != nil {
			return err
		}
	}
}

// passNearest takes note that the nearest member ahead keeps the place waiting no longer, and reports whether its claim can
// be granted without another listing.
//
// The last listing had the place's own node. The node still exists if its watch has not fired since, and if the server is
// still the same: a server reports events in the order in which they happened. Otherwise another listing is needed.
func (q *Queue) passNearest(ctx context.Context, s *client.Session, p *place, d *protocol.Decision, detached <-chan struct{}) (granted bool, err error) {
	d.WithoutLast()
	if !d.Granted() || !d.Complete {
		return false, nil
	}
	switch _, err := s.Watch(ctx, p.Path, session.WatchNode); {
	case errors.Is(err, zk.ErrNoNode):
	case err != nil:
		return false, err
	default:
		select {
		case <-detached:
		default:
			return true, nil
		}
	}
	*d = protocol.Decision{}
	return false, nil
}

// predicted returns the decision that the place's number suggests, none if it suggests nothing. A
// reader's predecessor by number says nothing about the writers ahead. Where the name of the only
// contender of a client has a nonce, those of other such clients do, and cannot be predicted.
func (p *place) predicted() protocol.Decision {
	if !p.verified || p.inName || p.member.Overflowed() || p.member.Sequence == 0 || p.mode == Read {
		return protocol.Decision{}
	}
	return protocol.Decision{Ahead: []protocol.Member{{Name: protocol.NamePrefix(p.Tag, "", p.mode) + protocol.SequenceSuffix(p.member.Sequence-1)}}}
}

// An awaited is what the event says for which a place has waited.
type awaited int

const (
	nodeGone    awaited = iota // the watched node was deleted
	nodeChanged                // it was written, and still exists
	listAgain                  // a listing must show what has happened
)

// awaitEvent waits for an event of the watched node, or of the place's own.
func (q *Queue) awaitEvent(ctx context.Context, s *client.Session, p *place, w *session.Watch) (awaited, error) {
	_, detached := s.Served()
	own, err := s.Watch(ctx, p.Path, session.WatchNode)
	if errors.Is(err, zk.ErrNoNode) {
		return listAgain, nil // which shows whether it was deleted
	}
	if err != nil {
		return 0, err
	}
	select {
	case <-w.Fired():
	case <-own.Fired():
	case <-p.Lost():
		return 0, &Error{Op: "wait", Path: p.Path, Err: sentinel.ErrDeleted}
	case <-ctx.Done():
		return 0, &Error{Op: "wait", Path: p.Path, Err: ctx.Err()}
	}
	if over := s.Ended(); over != nil {
		return 0, &Error{Op: "wait", Path: p.Path, Err: over}
	}
	// A server reports events in the order in which they happened, so that the deletion of the
	// own node is known here, unless the client has changed servers.
	for _, doubt := range []<-chan struct{}{own.Fired(), detached} {
		select {
		case <-doubt:
			return listAgain, nil
		default:
		}
	}
	switch {
	case w.Changed():
		return nodeChanged, nil
	case w.Deleted():
		return nodeGone, nil
	}
	return listAgain, nil
}

// decide returns what a listing means for the place.
//
// A listing that has the place's own node is at least as new as its creation, so it has
// every contender that joined before and still exists. A listing that is out of date can
// show a contender that has left, which costs time, but it never hides one that exists.
func (q *Queue) decide(ctx context.Context, s *client.Session, p *place) (protocol.Decision, error) {
	for {
		lst, err := list(ctx, s, q.path)
		if err != nil {
			return protocol.Decision{}, err
		}
		d, listed, err := q.decideBy(ctx, s, lst, p)
		if err != nil {
			return protocol.Decision{}, err
		}
		if !listed {
			// Deleted, or not visible on this server yet: the quorum decides.
			if err := s.Prove(ctx, p.Node); err != nil {
				return protocol.Decision{}, err
			}
			continue
		}
		if lst.parent.Czxid != p.Tag {
			q.forget()
			return protocol.Decision{}, &Error{Op: "wait", Path: p.Path, Err: errOtherParent}
		}
		s.MarkVerified(p.Node)
		if p.candidate {
			p.listed = lst
		}
		q.recordNumber(lst.parent.Czxid, lst.highest, lst.overflowed)
		return d, nil
	}
}

// decideBy is listing.decide, also where numbers do not give the order.
func (q *Queue) decideBy(ctx context.Context, s *client.Session, lst *listing, p *place) (d protocol.Decision, listed bool, err error) {
	own := p.member
	if lst.plain && !own.Overflowed() {
		d, listed = lst.decide(own, p.limit.permits)
		return d, listed, nil
	}
	members := slices.Clone(lst.members)
	i := slices.IndexFunc(members, func(m protocol.Member) bool { return m.Name == own.Name })
	if i < 0 {
		return protocol.Decision{}, false, nil
	}
	members[i] = own
	members, err = q.orderable(ctx, s, members)
	if err != nil {
		return protocol.Decision{}, false, err
	}
	d, _ = protocol.NewOrder(members).Decide(own, p.limit.permits)
	return d, true, nil
}

// grant makes a claim of a place that has no predecessor.
func grant(ctx context.Context, s *client.Session, p *place) (*Claim, error) {
	c, err := claim.Grant(ctx, s, claim.Granting{
		Node: p.Node, Token: fencing.Token(p.member.Czxid), Mode: p.mode, Shared: p.mode == Read || p.member.Weight > 0, Waited: p.behind,
	})
	if err != nil {
		return nil, err
	}
	return claim.Show(new(Claim), c), nil
}
