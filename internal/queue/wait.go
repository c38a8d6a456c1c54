// SPDX-License-Identifier: Apache-2.0

package queue

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
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errOtherParent reports that a node's name belongs to another life of the parent.
var errOtherParent = errors.New("parent was deleted and created again")

// Await waits until the claim of the place can be granted: see order.decide.
//
// If the place's name is known to belong to the parent's current life, the node with the
// number before is the predecessor, if it exists: each number is given out once. So await
// watches it without a listing; otherwise, each join of a burst would cost a listing.
//
// If the predecessor is a lease, the client deletes it when its holder has stopped renewing it.
func (q *Queue) Await(ctx context.Context, s *client.Session, p *Place) error {
	w := &wait{queue: q, session: s, place: p, decision: p.predicted()}
	for {
		if w.decision.Granted() {
			var err error
			_, w.detached = s.Served()
			if w.decision, err = q.Decide(ctx, s, p); err != nil || w.decision.Granted() {
				return err
			}
		}
		left, err := w.awaitNearest(ctx)
		if err != nil {
			return err
		}
		switch left {
		case NodeChanged: // a lease that was renewed is still ahead
		case listAgain:
			w.decision = protocol.Decision{}
		case nodeGone:
			if granted, err := w.passNearest(ctx); granted || err != nil {
				return err
			}
		}
	}
}

// A wait is a call of Await.
type wait struct {
	queue    *Queue
	session  *client.Session
	place    *Place
	decision protocol.Decision
	detached <-chan struct{} // closed if the client has changed servers since the listing
	reported string          // name of the member whose wait was reported
}

// awaitNearest waits for an event of the nearest member ahead. One that keeps the place waiting no longer counts as gone.
func (w *wait) awaitNearest(ctx context.Context) (awaited, error) {
	q, s, p := w.queue, w.session, w.place
	nearest := w.decision.Ahead[len(w.decision.Ahead)-1]
	// GetW sets no watch on a node that is gone, where ExistsW would leave
	// one behind that can never fire: names do not recur.
	watch, err := s.Watch(ctx, q.path+"/"+nearest.Name, session.WatchNode)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nodeGone, nil
	case err != nil:
		return 0, err
	case p.mode == protocol.Read && sharedWatched(watch, nearest):
		return nodeGone, nil
	}
	if nearest.Name != w.reported {
		w.reported = nearest.Name
		p.Behind = true
		q.Client.Report().Waiting(q.path, p.Path, w.reported)
	}
	q.ObserveWatched(watch, nearest.Name)
	return q.AwaitEvent(ctx, s, p, watch)
}

// passNearest takes note that the nearest member ahead keeps the place waiting no longer, and reports whether its claim can
// be granted without another listing.
//
// The last listing had the place's own node. The node still exists if its watch has not fired since, and if the server is
// still the same: a server reports events in the order in which they happened. Otherwise another listing is needed.
func (w *wait) passNearest(ctx context.Context) (granted bool, err error) {
	w.decision.WithoutLast()
	if !w.decision.Granted() || !w.decision.Complete {
		return false, nil
	}
	switch _, err := w.session.Watch(ctx, w.place.Path, session.WatchNode); {
	case errors.Is(err, zk.ErrNoNode):
	case err != nil:
		return false, err
	default:
		select {
		case <-w.detached:
		default:
			return true, nil
		}
	}
	w.decision = protocol.Decision{}
	return false, nil
}

// predicted returns the decision that the place's number suggests, none if it suggests nothing. A
// reader's predecessor by number says nothing about the writers ahead. Where the name of the only
// contender of a client has a nonce, the names of other such clients have one too, and cannot be predicted.
func (p *Place) predicted() protocol.Decision {
	if !p.verified || p.inName || p.Member.Overflowed() || p.Member.Sequence == 0 || p.mode == protocol.Read {
		return protocol.Decision{}
	}
	return protocol.Decision{Ahead: []protocol.Member{{Name: protocol.NamePrefix(p.Tag, "", p.mode) + protocol.SequenceSuffix(p.Member.Sequence-1)}}}
}

// An awaited is what the event says for which a place has waited.
type awaited int

const (
	nodeGone    awaited = iota // the watched node was deleted
	NodeChanged                // it was written, and still exists
	listAgain                  // a listing must show what has happened
)

// AwaitEvent waits for an event of the watched node, or of the place's own.
func (q *Queue) AwaitEvent(ctx context.Context, s *client.Session, p *Place, w *session.Watch) (awaited, error) {
	_, detached := s.Served()
	own, err := s.Watch(ctx, p.Path, session.WatchNode)
	if errors.Is(err, zk.ErrNoNode) {
		return listAgain, nil // which shows whether it was deleted
	}
	if err != nil {
		return 0, err
	}
	p.dropProof()
	s.Nodes.SetBehind(p.Node, true)
	defer s.Nodes.SetBehind(p.Node, false)
	select {
	case <-w.Fired():
	case <-own.Fired():
	case <-p.Lost():
		return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: sentinel.ErrDeleted}
	case <-ctx.Done():
		return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: ctx.Err()}
	}
	if over := s.Ended(); over != nil {
		return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: over}
	}
	if p.Member.Weight == 0 { // permits are granted by a quorum write
		p.askProof(s)
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
		return NodeChanged, nil
	case w.Deleted():
		return nodeGone, nil
	}
	return listAgain, nil
}

// Decide returns what a listing means for the place.
//
// A listing that has the place's own node is at least as new as its creation, so it has
// every contender that joined before and still exists. A listing that is out of date can
// show a contender that has left, which costs time, but it never hides one that exists.
func (q *Queue) Decide(ctx context.Context, s *client.Session, p *Place) (protocol.Decision, error) {
	for {
		lst, err := List(ctx, s, q.path)
		if err != nil {
			return protocol.Decision{}, err
		}
		d, listed, err := q.DecideBy(ctx, s, lst, p)
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
		if lst.Parent.Czxid != p.Tag {
			q.Relearn()
			return protocol.Decision{}, &recipes.Error{Op: "wait", Path: p.Path, Err: errOtherParent}
		}
		s.Nodes.MarkVerified(p.Node)
		if p.Candidate {
			p.Listed = lst
		}
		q.recordNumber(lst.Parent.Czxid, lst.highest, lst.overflowed)
		return d, nil
	}
}

// DecideBy is listing.decide, also where numbers do not give the order.
func (q *Queue) DecideBy(ctx context.Context, s *client.Session, lst *Listing, p *Place) (d protocol.Decision, listed bool, err error) {
	own := p.Member
	if lst.Plain && !own.Overflowed() {
		d, listed = lst.decide(own, p.Limit.Permits)
		return d, listed, nil
	}
	members := slices.Clone(lst.Members)
	i := slices.IndexFunc(members, func(m protocol.Member) bool { return m.Name == own.Name })
	if i < 0 {
		return protocol.Decision{}, false, nil
	}
	members[i] = own
	members, err = q.orderable(ctx, s, members)
	if err != nil {
		return protocol.Decision{}, false, err
	}
	d, _ = protocol.NewOrder(members).Decide(own, p.Limit.Permits)
	return d, true, nil
}

// Grant makes a claim of a place that has no predecessor.
func Grant(ctx context.Context, s *client.Session, p *Place) (*recipes.Claim, error) {
	c, err := claim.Grant(ctx, s, claim.Granting{
		Node: p.Node, Token: fencing.Token(p.Member.Czxid), Mode: p.mode, Shared: p.mode == protocol.Read || p.Member.Weight > 0, Waited: p.Behind, Asked: p.asked,
	})
	if err != nil {
		return nil, err
	}
	return claim.Show(new(recipes.Claim), c), nil
}

// grant makes a claim of a place that has no predecessor, and takes it over from a former holder that
// did not release. If the fence function panics, it deletes the node as a failed Claim does.
func (q *Queue) grant(ctx context.Context, s *client.Session, p *Place) (*recipes.Claim, error) {
	c, err := Grant(ctx, s, p)
	if err != nil || q.Takeover == nil {
		return c, err
	}
	returned := false
	defer func() {
		if !returned {
			q.Discard(s, p)
		}
	}()
	err = q.Takeover.Run(ctx, c)
	returned = true
	if err != nil {
		return nil, err
	}
	return c, nil
}
