// SPDX-License-Identifier: Apache-2.0

// Package candidacy has contenders that have priorities and may yield.
package candidacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are how a contender that may yield takes part in a queue. Yielding changes no
// rule of the queue: the contender deletes its node and joins again at the end, so that claims are
// granted in the order in which their nodes were created.
type Options struct {
	// Priority is shown to other contenders in the name of the node, 0 to MaxPriority. It does not
	// change the order of the queue.
	Priority int

	// Waits, if not nil, runs on a separate goroutine while a node of the contender waits. Its
	// context is done when that ends, and the contender waits for it to return.
	Waits func(ctx context.Context, p *Position)

	// Yields, if not nil, decides for a contender that has no predecessor and is not the only one
	// whether it yields. behind are the others, in the order of the queue. It is called before the session is
	// proved to live. If it returns an error, the attempt ends with it.
	//
	// The reads that it sends show at least what had been committed when the last contender ahead
	// left.
	Yields func(ctx context.Context, p *Position, behind []Rank) (bool, error)

	_ struct{}
}

// A Rank is what the name of a contender's node shows to the others.
type Rank struct {
	Name     string // of its node, below the queue's path
	Priority int    // of its Candidacy, 0 for other contenders
}

// A Position is a node of a contender that waits. It is safe for concurrent use.
type Position struct {
	queue   *queue.Queue
	session *client.Session
	place   *queue.Place
}

// Name returns the name of the node, below the queue's path.
func (p *Position) Name() string { return p.place.Member.Name }

// Token returns the token that a claim of this node has.
func (p *Position) Token() fencing.Token { return fencing.Token(p.place.Member.Czxid) }

// Claim claims the queue for a contender that may yield, as c decides.
func Claim(ctx context.Context, q *queue.Queue, c Options) (*recipes.Claim, error) {
	if err := protocol.CheckPriority(c.Priority); err != nil {
		return nil, &recipes.Error{Op: "claim", Path: q.Path(), Err: err}
	}
	return q.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) {
		e := q.SessionEntry(s, protocol.Exclusive)
		e.Priority = int16(c.Priority) //nolint:gosec // at most protocol.MaxPriority
		return q.ClaimIn(ctx, s, e, func(ctx context.Context, s *client.Session, p *queue.Place) error { return awaitTurn(ctx, q, s, p, c) })
	})
}

// awaitTurn waits until the claim can be granted. Its error is ErrYielded if the contender is to
// join again instead.
func awaitTurn(ctx context.Context, q *queue.Queue, s *client.Session, p *queue.Place, c Options) error {
	p.Candidate = c.Yields != nil
	position := &Position{queue: q, session: s, place: p}
	if err := awaitWith(ctx, q, s, p, func(ctx context.Context) {
		if c.Waits != nil {
			c.Waits(ctx, position)
		}
	}); err != nil {
		return err
	}
	lst := p.Listed
	if lst == nil || len(lst.Members) == 1 {
		return nil
	}
	p.Listed = nil // a queue can be long, and a claim can last
	_, detached := s.Served()
	behind, err := ranks(ctx, q, s, lst)
	if err != nil {
		return err
	}
	behind = slices.DeleteFunc(behind, func(r Rank) bool { return r.Name == p.Member.Name })
	back, err := c.Yields(ctx, position, behind)
	switch {
	case err != nil:
		return err
	case back:
		return &recipes.Error{Op: "claim", Path: p.Path, Err: sentinel.ErrYielded}
	}
	return confirm(ctx, s, p, detached)
}

// confirm returns an error if the place's node, which a listing had, was deleted since. detached is closed if the client has
// changed servers in the meantime, and another contender can have set the watch before that: then an event may be missing, and a check
// shows whether the node exists.
func confirm(ctx context.Context, s *client.Session, p *queue.Place, detached <-chan struct{}) error {
	w, err := s.WatchOwn(ctx, p.Node)
	if err == nil {
		select {
		case <-detached:
		case <-w.Detached():
		default:
			return nil
		}
	} else if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return s.Prove(ctx, p.Node)
}

// awaitWith is await, with a function that runs meanwhile.
func awaitWith(ctx context.Context, q *queue.Queue, s *client.Session, p *queue.Place, waits func(context.Context)) error {
	waiting, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { waits(waiting) })
	defer group.Wait()
	defer stop()
	return q.Await(ctx, s, p)
}

// ranks returns the listed members in the order of the queue.
func ranks(ctx context.Context, q *queue.Queue, s *client.Session, lst *queue.Listing) ([]Rank, error) {
	var members []protocol.Member
	if lst.Plain {
		members = lst.InOrder().Members
	} else {
		var err error
		if members, err = q.Order(ctx, s, slices.Clone(lst.Members)); err != nil {
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
	ahead, _, err := p.others(ctx)
	return ahead, err
}

// Behind lists the contenders behind the position as Ahead does those ahead of it.
func (p *Position) Behind(ctx context.Context) ([]Rank, error) {
	_, behind, err := p.others(ctx)
	return behind, err
}

func (p *Position) others(ctx context.Context) (ahead, behind []Rank, err error) {
	lst, err := queue.List(ctx, p.session, p.queue.Path())
	if err != nil {
		return nil, nil, err
	}
	ranks, err := ranks(ctx, p.queue, p.session, lst)
	own := slices.IndexFunc(ranks, func(r Rank) bool { return r.Name == p.Name() })
	if err != nil || own < 0 {
		return nil, nil, err
	}
	return ranks[:own], ranks[own+1:], nil
}

// Write writes a node, and creates it if it is missing, in one transaction with a check that the
// position's own node exists. Its parent must exist. It sends the transaction until it is
// answered: of concurrent writers, any may be the last.
func (p *Position) Write(ctx context.Context, n *node.Node, data []byte) error {
	fail := func(err error) error { return &recipes.Error{Op: "write", Path: n.Path(), Err: err} }
	if client.Of(n) != p.session.Client() {
		return fail(errors.New("the position belongs to another client"))
	}
	if err := zkpath.CheckData(n.Path(), data); err != nil {
		return fail(err)
	}
	for {
		for _, op := range []any{
			&zk.SetDataRequest{Path: n.Path(), Data: data, Version: -1},
			&zk.CreateRequest{Path: n.Path(), Data: data, Acl: p.session.Client().ACL()},
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
func (p *Position) send(ctx context.Context, n *node.Node, op any) (refused, err error) {
	own := &zk.CheckVersionRequest{Path: p.place.Path, Version: -1}
	type answer struct{ own, op error }
	a, err := session.Retry(ctx, p.session.Session, "write", n.Path(), func(conn *zk.Conn) (answer, error) {
		results, err := conn.Multi(own, op)
		if err == nil || len(results) != 2 || session.OutcomeOf(err) != session.Refused {
			return answer{}, err
		}
		return answer{results[0].Error, results[1].Error}, nil
	})
	if err == nil && a.own != nil {
		err = &recipes.Error{Op: "write", Path: p.place.Path, Err: fmt.Errorf("%w: %w", sentinel.ErrDeleted, a.own)}
	}
	return a.op, err
}
