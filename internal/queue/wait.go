// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
	"time"

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
	nearest  int64  // czxid of the member that is watched, 0 if it was gone before that
	reported string // name of the member whose wait was reported
}

// awaitNearest waits for an event of the nearest member ahead. One that keeps the place waiting no longer counts as gone.
func (w *wait) awaitNearest(ctx context.Context) (awaited, error) {
	q, s, p := w.queue, w.session, w.place
	nearest := w.decision.Ahead[len(w.decision.Ahead)-1]
	w.nearest = 0
	p.dropProof() // of an earlier event: the own node can have been deleted since
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
	if _, stat, _ := watch.Content(); stat != nil {
		w.nearest = stat.Czxid
	}
	q.ObserveWatched(watch, nearest.Name)
	return q.AwaitEvent(ctx, s, p, watch)
}

// passNearest takes note that the nearest member ahead keeps the place waiting no longer, and reports whether its claim can
// be granted without another listing: if no other member was ahead, or if a hint says that this one was the first. In both cases the
// place's own node must exist after the event, as an operator can have deleted it before.
func (w *wait) passNearest(ctx context.Context) (granted bool, err error) {
	w.decision.WithoutLast()
	known := w.decision.Complete
	switch {
	case !w.decision.Granted():
		return false, nil
	case w.place.Candidate: // which decides by a listing whether it yields
	case known:
		granted, err = w.place.exists(ctx, w.session)
	case w.nearest != 0 && w.place.mode != protocol.Read && w.queue.isWritable(w.place.Tag):
		granted, err = w.hinted(ctx)
	}
	w.decision = protocol.Decision{}
	return granted, err
}

// hinted reports whether the place's own node exists, and the parent's data say that the nearest member ahead was the first. The
// two reads go out together.
//
// The hint must name the nearest member. That a later contender was the first does not suffice: of two readers ahead, the first
// can be left.
func (w *wait) hinted(ctx context.Context) (bool, error) {
	q, s, p := w.queue, w.session, w.place
	parent := s.BeginGet(ctx, q.path)
	exists, err := p.exists(ctx, s)
	data, stat, failed := parent()
	hint := int64(0)
	if failed == nil && stat.Czxid == p.Tag {
		hint = protocol.ParseHint(data)
	}
	if err == nil && !errors.Is(failed, zk.ErrNoNode) {
		err = failed
	}
	return exists && hint == w.nearest, err
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

// AwaitEvent waits for an event of the watched node, or of the place's own. It watches the place's own node from T/24 after its
// join on, and only to be notified of its deletion: most waits are shorter.
func (q *Queue) AwaitEvent(ctx context.Context, s *client.Session, p *Place, w *session.Watch) (awaited, error) {
	p.dropProof()
	s.Nodes.SetBehind(p.Node, true)
	defer s.Nodes.SetBehind(p.Node, false)
	if session.IsClosed(p.own.fired()) {
		p.own = ownWatch{}
	}
	timer := time.NewTimer(time.Until(p.joined.Add(s.Timeout() / 24)))
	defer timer.Stop()
	for {
		select {
		case <-w.Fired():
			return q.afterEvent(s, p, w)
		case <-p.own.fired():
			return q.afterEvent(s, p, w)
		case <-timer.C:
			if p.own.Watch != nil {
				continue
			}
			err := p.watchOwn(ctx, s)
			if errors.Is(err, zk.ErrNoNode) {
				return listAgain, nil // which shows whether it was deleted
			}
			if err != nil {
				return 0, err
			}
		case <-p.Lost():
			return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: sentinel.ErrDeleted}
		case <-ctx.Done():
			return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: ctx.Err()}
		}
	}
}

// afterEvent returns what the event says.
func (q *Queue) afterEvent(s *client.Session, p *Place, w *session.Watch) (awaited, error) {
	if over := s.Ended(); over != nil {
		return 0, &recipes.Error{Op: "wait", Path: p.Path, Err: over}
	}
	ownChanged := session.IsClosed(p.own.fired()) // then w has perhaps not fired
	if !ownChanged && w.Changed() {
		return NodeChanged, nil // as each renewal of a lease ahead: it grants nothing, and needs no proof
	}
	if p.Member.Weight == 0 { // permits are granted by a quorum write
		p.askProof(s)
	}
	if !ownChanged && w.Deleted() {
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
		if p.Behind {
			p.lists++
		}
		_, detached := s.Served()
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
		q.witnesses.see(lst, p.Member)
		if p.Candidate {
			p.Listed = lst
		}
		q.recordNumber(detached, lst.Parent.Czxid, lst.highest, lst.overflowed)
		return d, nil
	}
}

// DecideBy is listing.decide, also where numbers do not give the order.
func (q *Queue) DecideBy(ctx context.Context, s *client.Session, lst *Listing, p *Place) (d protocol.Decision, listed bool, err error) {
	own := p.Member
	if lst.Plain && !own.Overflowed() {
		d, listed = lst.decide(own, p.Limit.Permits)
		p.Ahead = d.Before
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
	p.Ahead = d.Before
	return d, true, nil
}

// Grant makes a claim of a place that has no predecessor. After an event of the place's own node, or once another connection than that
// of its join serves the session, a read shows first whose node it is.
func (q *Queue) Grant(ctx context.Context, s *client.Session, p *Place) (*recipes.Claim, error) {
	_, detached := s.Served()
	waits := !claim.IsProved(s)
	if session.IsClosed(p.own.fired()) || p.own.Watch == nil && detached != p.detached {
		waits = true
		err := p.watchOwn(ctx, s)
		if errors.Is(err, zk.ErrNoNode) {
			err = s.Prove(ctx, p.Node) // the server may be behind
		}
		if err != nil {
			return nil, err
		}
	}
	if p.Numbered && waits {
		if err := p.awaitNumber(ctx, s); err != nil {
			return nil, err
		}
	}
	g := claim.Granting{
		Node: p.Node, Token: fencing.Token(p.Member.Czxid), Mode: p.mode, Shared: p.mode == protocol.Read || p.Member.Weight > 0,
		Waited: p.Behind, Lists: p.lists, Asked: p.asked, Number: p.Number,
	}
	if !g.Shared && p.Behind {
		g.Remove = q.removal(p)
	}
	if p.Numbered { // others hold the queue as well, but not the number
		g.Token, g.Shared = fencing.Token(p.Granted), false
	}
	c, err := claim.Grant(ctx, s, g)
	if err != nil {
		return nil, err
	}
	return claim.Show(new(recipes.Claim), c), nil
}

// awaitNumber waits until the session is proved while a watch shows the place's number: an operator may have deleted it while the grant
// waited for an answer. A place that has lost its number is granted nothing.
func (p *Place) awaitNumber(ctx context.Context, s *client.Session) error {
	pause := time.NewTicker(s.Timeout() / 48)
	defer pause.Stop()
	for {
		if err := claim.AwaitProof(ctx, s, p.Node, nil); err != nil {
			return err
		}
		second, found := s.Nodes.Second(p.Node)
		if !found || second.Fired != nil && !session.IsClosed(second.Fired) {
			return nil
		}
		select {
		case <-pause.C: // WatchSecond reads it
		case <-ctx.Done():
			return &recipes.Error{Op: "grant", Path: p.Path, Err: ctx.Err()}
		}
	}
}

// grant makes a claim of a place that has no predecessor, and takes it over from a former holder that
// did not release. If the fence function panics, it deletes the node as a failed Claim does.
func (q *Queue) grant(ctx context.Context, s *client.Session, p *Place) (*recipes.Claim, error) {
	c, err := q.Grant(ctx, s, p)
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
