// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// ErrSteppedBack is the cause that Trace.Rejoined gets when a contender that could have been granted
// the claim has joined again at the end of the queue.
var ErrSteppedBack = errors.New("stepped back for another contender")

// A Candidacy is how a contender that may step back takes part in a queue. Stepping back changes no
// rule of the queue: the contender deletes its node and joins again at the end, so that claims are
// granted in the order in which their nodes were created.
type Candidacy struct {
	// Priority is shown to other contenders in the name of the node, 0 to MaxPriority. It does not
	// change the order of the queue.
	Priority int

	// Waits, if not nil, runs on a separate goroutine while a node of the contender waits. Its
	// context is done when that ends, and the contender waits for it to return.
	Waits func(ctx context.Context, p *Position)

	// StepsBack, if not nil, decides for a contender that has no predecessor and is not the only one
	// whether it steps back. behind are the others, in the order of the queue. It is called before the session is
	// proved to live. If it returns an error, the attempt ends with it.
	//
	// The reads that it sends show at least what had been committed when the last contender ahead
	// left.
	StepsBack func(ctx context.Context, p *Position, behind []Rank) (bool, error)

	_ struct{}
}

// A Rank is what the name of a contender's node shows to the others.
type Rank struct {
	Name     string // of its node, below the queue's path
	Priority int    // of its Candidacy, 0 for other contenders
}

// A Position is a node of a contender that waits. It is safe for concurrent use.
type Position struct {
	queue   *Queue
	session *client.Session
	place   *place
}

// Name returns the name of the node, below the queue's path.
func (p *Position) Name() string { return p.place.member.Name }

// Token returns the token that a claim of this node has.
func (p *Position) Token() fencing.Token { return fencing.Token(p.place.member.Czxid) }

// ClaimWith is Claim for a contender that may step back, as c decides.
func (q *Queue) ClaimWith(ctx context.Context, c Candidacy) (*Claim, error) {
	if err := CheckPriority(c.Priority); err != nil {
		return nil, &Error{Op: "claim", Path: q.path, Err: err}
	}
	return q.contend(ctx, func(ctx context.Context, s *client.Session) (*Claim, error) {
		e := q.sessionEntry(s, Exclusive)
		e.priority = int16(c.Priority) //nolint:gosec // at most MaxPriority
		return q.claimIn(ctx, s, e, func(ctx context.Context, s *client.Session, p *place) error { return q.awaitTurn(ctx, s, p, c) })
	})
}

// awaitTurn waits until the claim can be granted. Its error is ErrSteppedBack if the contender is to
// join again instead.
func (q *Queue) awaitTurn(ctx context.Context, s *client.Session, p *place, c Candidacy) error {
	p.candidate = c.StepsBack != nil
	position := &Position{queue: q, session: s, place: p}
	if err := q.awaitWith(ctx, s, p, func(ctx context.Context) {
		if c.Waits != nil {
			c.Waits(ctx, position)
		}
	}); err != nil {
		return err
	}
	lst := p.listed
	if lst == nil || len(lst.members) == 1 {
		return nil
	}
	p.listed = nil // a queue can be long, and a claim can last
	_, detached := s.Served()
	behind, err := q.ranks(ctx, s, lst)
	if err != nil {
		return err
	}
	behind = slices.DeleteFunc(behind, func(r Rank) bool { return r.Name == p.member.Name })
	back, err := c.StepsBack(ctx, position, behind)
	switch {
	case err != nil:
		return err
	case back:
		return &Error{Op: "claim", Path: p.Path, Err: ErrSteppedBack}
	}
	return q.confirm(ctx, s, p, detached)
}

// confirm returns an error if the place's node, which a listing had, was deleted since. detached is closed if the client has
// changed servers in the meantime: then an event may be missing, and a check shows whether the node exists.
func (q *Queue) confirm(ctx context.Context, s *client.Session, p *place, detached <-chan struct{}) error {
	_, err := s.Watch(ctx, p.Path, session.WatchNode)
	if err == nil {
		select {
		case <-detached:
		default:
			return nil
		}
	} else if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return s.Prove(ctx, p.Node)
}

// awaitWith is await, with a function that runs meanwhile.
func (q *Queue) awaitWith(ctx context.Context, s *client.Session, p *place, waits func(context.Context)) error {
	waiting, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { waits(waiting) })
	defer group.Wait()
	defer stop()
	return q.await(ctx, s, p)
}

// ranks returns the listed members in the order of the queue.
func (q *Queue) ranks(ctx context.Context, s *client.Session, lst *listing) ([]Rank, error) {
	var members []protocol.Member
	if lst.plain {
		members = lst.inOrder().Members
	} else {
		var err error
		if members, err = q.order(ctx, s, slices.Clone(lst.members)); err != nil {
			return nil, err
		}
	}
	ranks := make([]Rank, len(members))
	for i, m := range members {
		ranks[i] = Rank{m.Name, int(m.Priority)}
	}
	return ranks, nil
}

// Ahead lists the contenders ahead of the position, the front first, as the server of the session
// sees them. It returns none if the position's node is not in the queue.
func (p *Position) Ahead(ctx context.Context) ([]Rank, error) {
	lst, err := list(ctx, p.session, p.queue.path)
	if err != nil {
		return nil, err
	}
	ranks, err := p.queue.ranks(ctx, p.session, lst)
	if err != nil {
		return nil, err
	}
	own := slices.IndexFunc(ranks, func(r Rank) bool { return r.Name == p.Name() })
	return ranks[:max(0, own)], nil
}

// Write writes a node, and creates it if it is missing, in one transaction with a check that the
// position's own node exists. Its parent must exist. It sends the transaction until it is
// answered: of concurrent writers, any may be the last.
func (p *Position) Write(ctx context.Context, n *Node, data []byte) error {
	fail := func(err error) error { return &Error{Op: "write", Path: n.path, Err: err} }
	if n.client != p.session.Client() {
		return fail(errors.New("the position belongs to another client"))
	}
	if err := zkpath.CheckData(n.path, data); err != nil {
		return fail(err)
	}
	for {
		for _, op := range []any{
			&zk.SetDataRequest{Path: n.path, Data: data, Version: -1},
			&zk.CreateRequest{Path: n.path, Data: data, Acl: p.session.Client().ACL()},
		} {
			refused, err := p.send(ctx, n, op)
			switch {
			case err != nil:
				return err
			case refused == nil:
				return nil
			case !errors.Is(refused, zk.ErrNoNode) && !errors.Is(refused, zk.ErrNodeExists):
				return fail(refused)
			}
		}
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
	}
}

// send sends an operation behind a check of the position's node. refused is the server's answer to
// the operation.
func (p *Position) send(ctx context.Context, n *Node, op any) (refused, err error) {
	own := &zk.CheckVersionRequest{Path: p.place.Path, Version: -1}
	type answer struct{ own, op error }
	a, err := session.Retry(ctx, p.session.Session, "write", n.path, func(conn *zk.Conn) (answer, error) {
		results, err := conn.Multi(own, op)
		if err == nil || len(results) != 2 || session.OutcomeOf(err) != session.Refused {
			return answer{}, err
		}
		return answer{results[0].Error, results[1].Error}, nil
	})
	if err == nil && a.own != nil {
		err = &Error{Op: "write", Path: p.place.Path, Err: fmt.Errorf("%w: %w", sentinel.ErrDeleted, a.own)}
	}
	return a.op, err
}
