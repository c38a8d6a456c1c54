// SPDX-License-Identifier: Apache-2.0

package permits

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// await waits until the permits of the place fit: see order.decidePermits. It sets the limit of the
// place to that under which they do.
//
// A waiter watches the contender directly ahead, until that is granted its permits: mark writes its
// node then. From that moment all contenders ahead have permits, or permits that fit, and only this
// waiter waits for any of them to leave: see room.
func (p *Permits) await(ctx context.Context, s *client.Session, pl *queue.Place) error {
	q := p.queue
	ahead, reported := "", ""
	for {
		if ahead == "" {
			if err := p.refresh(ctx, s, pl); err != nil {
				return err
			}
			d, err := q.Decide(ctx, s, pl)
			if err != nil || d.Granted() {
				return err
			}
			ahead = d.Ahead[0].Name
		}
		w, err := s.Watch(ctx, q.Path()+"/"+ahead, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			ahead = ""
			continue
		}
		if err != nil {
			return err
		}
		if ahead != reported {
			reported = ahead
			pl.Behind = true
			q.Client.Report().Waiting(q.Path(), pl.Path, reported)
		}
		if holdsPermits(w, ahead) {
			return (&room{Permits: p, session: s, place: pl, held: -1}).await(ctx)
		}
		q.ObserveWatched(w, ahead)
		left, err := q.AwaitEvent(ctx, s, pl, w)
		if err != nil {
			return err
		}
		if left != queue.NodeChanged {
			ahead = ""
		}
	}
}

// holdsPermits reports whether the watched node belongs to a contender that was granted its permits.
func holdsPermits(w *session.Watch, name string) bool {
	data, stat, _ := w.Content()
	c := queue.ContenderOf(name, data, stat)
	return c.Permits > 0 && c.Held
}

// refresh reads the limit, and returns an error if the place can never be granted its permits under
// it.
func (p *Permits) refresh(ctx context.Context, s *client.Session, pl *queue.Place) error {
	l, err := p.acceptLimit(ctx, s, func(permits int) error { return p.checkWeight(int(pl.Member.Weight), permits) })
	if err != nil {
		return err
	}
	pl.Limit = l
	return nil
}

// A marking is the answer to the transaction of mark.
type marking struct {
	limit, own, number error // of its operations; of each only if the errors before are nil
	granted            int64 // the zxid of the transaction, if it was carried out
}

// mark grants the place its permits in the ensemble: it marks the node, in one transaction with a
// check that the limit is still the place's. The contender directly behind watches the node,
// and becomes the first waiter. fits is false if the limit has changed.
//
// As long as the place's node exists, the contenders ahead only become fewer, so that the permits
// fit when the transaction is carried out, however old the listing is.
func (p *Permits) mark(ctx context.Context, s *client.Session, pl *queue.Place) (fits bool, err error) {
	data, err := protocol.Amend(pl.Record, "held", true)
	if err == nil && pl.Numbered {
		data, err = protocol.Amend(data, "slot", pl.Number)
	}
	if err != nil {
		return false, &recipes.Error{Op: "grant", Path: pl.Path, Err: err}
	}
	if pl.Numbered {
		s.Nodes.BeginRewriteAnd(pl.Node, data, p.numberPath(pl.Number))
	} else {
		s.Nodes.BeginRewrite(pl.Node, data)
	}
	for {
		answer, err := session.Retry(ctx, s.Session, "grant", pl.Path, func(conn *zk.Conn) (marking, error) {
			return p.sendMark(conn, pl, data)
		})
		switch {
		case err != nil:
			return false, err
		case answer.limit != nil:
			return p.marked(ctx, s, pl)
		case answer.own == nil && answer.number != nil:
			s.Nodes.ForgetSecond(pl.Node)
			return false, errNumberInUse
		case answer.own == nil:
			s.Nodes.Recognise(pl.Node, 1, data)
			p.recordGrant(s, pl, answer.granted)
			return true, nil
		case errors.Is(answer.own, zk.ErrNoNode):
			s.MarkLost(pl.Node)
			return false, &recipes.Error{Op: "grant", Path: pl.Path, Err: sentinel.ErrDeleted}
		}
		_, cause := s.MarkOverwritten(pl.Node)
		switch {
		case cause != nil:
			return false, &recipes.Error{Op: "grant", Path: pl.Path, Err: fmt.Errorf("%w: %w", sentinel.ErrDeleted, cause)}
		case pl.Version() == 1: // an attempt that was not answered was carried out
			return p.marked(ctx, s, pl)
		case ctx.Err() != nil:
			return false, &recipes.Error{Op: "grant", Path: pl.Path, Err: ctx.Err()}
		}
	}
}

// sendMark sends the transaction. Its error says that the transaction has no answer, or that
// the server refused it for another reason than one of its nodes.
func (p *Permits) sendMark(conn *zk.Conn, pl *queue.Place, data []byte) (marking, error) {
	ops := []any{
		&zk.CheckVersionRequest{Path: p.limitPath, Version: pl.Limit.Version},
		&zk.SetDataRequest{Path: pl.Path, Data: data, Version: 0},
	}
	if pl.Numbered {
		ops = append(ops, &zk.CreateRequest{Path: p.numberPath(pl.Number), Data: data, Acl: p.queue.Client.ACL(), Flags: zk.FlagEphemeral})
	}
	results, err := conn.Multi(ops...)
	switch {
	case err == nil && len(results) == len(ops):
		return marking{granted: results[1].Stat.Mzxid}, nil
	case err == nil:
		return marking{}, fmt.Errorf("server answered a grant of %d operations with %d results", len(ops), len(results))
	case len(results) != len(ops):
		return marking{}, err
	case errors.Is(err, zk.ErrNodeExists):
		return marking{number: err}, nil // only a create is refused so
	case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
		if pl.Numbered && results[0].Error == nil && results[1].Error == nil {
			err = fmt.Errorf("create %s: %w", p.numberPath(pl.Number), err)
		}
		return marking{}, err
	}
	return marking{limit: results[0].Error, own: results[1].Error}, nil
}

// marked reports whether the node is marked although the last transaction was refused because of the
// limit: an earlier attempt may not have been answered.
func (p *Permits) marked(ctx context.Context, s *client.Session, pl *queue.Place) (bool, error) {
	data, stat, err := s.Get(ctx, pl.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		s.MarkLost(pl.Node)
		return false, &recipes.Error{Op: "grant", Path: pl.Path, Err: sentinel.ErrDeleted}
	case err != nil:
		return false, err
	}
	if stat.Version != 1 || !s.Nodes.Recognise(pl.Node, stat.Version, data) {
		return false, nil
	}
	if pl.Numbered {
		if err := p.findNumber(ctx, s, pl, stat.Mzxid); err != nil {
			return false, err
		}
	}
	p.recordGrant(s, pl, stat.Mzxid)
	return true, nil
}

// findNumber returns sentinel.ErrDeleted if the number that the transaction with that zxid created exists no more: the number may be another
// contender's now.
func (p *Permits) findNumber(ctx context.Context, s *client.Session, pl *queue.Place, zxid int64) error {
	path := p.numberPath(pl.Number)
	_, stat, err := s.Get(ctx, path)
	if err == nil && stat.Czxid == zxid || err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	s.Nodes.ForgetSecond(pl.Node)
	return &recipes.Error{Op: "grant", Path: path, Err: sentinel.ErrDeleted}
}

// recordGrant records that the place was granted its permits by the transaction with that zxid, which is the token of a numbered one.
func (p *Permits) recordGrant(s *client.Session, pl *queue.Place, zxid int64) {
	if pl.Numbered {
		pl.Granted = zxid
		s.Nodes.SecondCreated(pl.Node)
		s.WatchSecond(pl.Node, p.numberPath(pl.Number), zxid) // now: the claim can need a proof of the session first, which may take long
	}
}
