// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Join creates a node of this client at the end of the queue. alone reports whether the
// reply shows that the node has no predecessor.
//
// One transaction creates the node and writes the parent. Its reply has the new
// node's path and the parent's Stat as of that moment: the zxid of the write is
// the new node's czxid, the parent's czxid verifies the name, and the number of
// children may show that the queue was empty.
//
// The tag is this client's belief, and in another life of the parent the numbers
// begin anew: a name of tag and number alone could be that of a claim,
// of this client or another, whose node was deleted with the parent. Its
// Commit, Check and heartbeats would take the new node for its own. So a plain name is given
// only where the transaction begins with a check of a node that the session is
// known to have in this life of the parent, and fails as a whole in another. A
// session that has none puts a nonce into the name.
//
// With a version of the parent other than -1 the join is carried out only while the
// parent has that version, which each join of this library raises. ErrContended reports
// that the version differed, and nothing was created.
func (q *Queue) Join(ctx context.Context, s *client.Session, e Entry, version int32) (p *Place, alone bool, err error) {
	witnessed := true // until a witness did not exist: the next one may not either
	for {
		a, err := q.attempt(ctx, s, e, version, witnessed)
		if err != nil {
			return nil, false, err
		}
		next, err := q.NextStep(ctx, s, a)
		if err != nil {
			return nil, false, err
		}
		if next == Stay {
			contenders := q.Stayed(s, a)
			return a.Place, contenders == 1, nil
		}
		q.Undo(s, a, next)
		switch next {
		case leaveCancelled:
			return nil, false, &recipes.Error{Op: "join", Path: q.path, Err: ctx.Err()}
		case fail:
			return nil, false, &recipes.Error{Op: "join", Path: q.path, Err: a.Err}
		case retryUnwitnessed:
			witnessed = false
		}
	}
}

// NextStep returns the step that follows from the attempt. If its outcome is unknown, NextStep
// searches for the node first.
func (q *Queue) NextStep(ctx context.Context, s *client.Session, a Attempt) (JoinStep, error) {
	next := a.next(ctx.Err() != nil)
	if next != findOut {
		return next, nil
	}
	found, err := q.recover(ctx, s, a.Place, a.Err)
	return a.afterSearch(found), err
}

// Stayed records that the attempt's node is the caller's. It returns the number of contenders
// in the answer, 0 if the answer has none.
func (q *Queue) Stayed(s *client.Session, a Attempt) (contenders int) {
	if a.Place.Kind == nodes.Lease {
		s.Nodes.HandOver(a.Place.Node)
	}
	if a.Parent != nil || a.witness != nil {
		a.Place.verified = true
		s.Nodes.MarkVerified(a.Place.Node)
	}
	if a.Parent != nil {
		contenders = int(a.Parent.NumChildren)
	}
	if a.Place.Kind != nodes.Lease {
		q.Client.Report().Joined(q.path, a.Place.Path, contenders)
	}
	return contenders
}

// Undo deletes the attempt's node, if there is one, and corrects what the queue knows of its
// parent.
func (q *Queue) Undo(s *client.Session, a Attempt, next JoinStep) {
	if next.Leaves() {
		q.Discard(s, a.Place)
	} else {
		s.Nodes.MarkGone(a.Place.Node)
	}
	switch next {
	case LeaveOtherLife, retryReread:
		q.Relearn()
	case retryUnwitnessed:
		switch {
		case errors.Is(a.Err, zk.ErrBadVersion):
			_, _ = s.MarkOverwritten(a.witness) // it exists, and what was granted on it may have been revoked
		case s.MarkLost(a.witness):
			q.Relearn() // perhaps with its parent
		}
	case retryUnwritten:
		q.markReadOnly()
	case retryWithNonce:
		q.markOverflowed()
	}
}

// attempt sends one join, with a witness if there is one and witnessed allows it. If it
// returns an error, nothing was sent.
func (q *Queue) attempt(ctx context.Context, s *client.Session, e Entry, version int32, witnessed bool) (Attempt, error) {
	v, err := q.Learn(ctx, s)
	if err != nil {
		return Attempt{}, err
	}
	// The name is chosen as late as possible. In a burst of joins, all but the first
	// few wait for their turn, and then have a witness in the nodes of those.
	mine, err := s.TakeTurn(ctx, session.Joining)
	if err != nil {
		return Attempt{}, &recipes.Error{Op: "join", Path: q.path, Err: session.NotSent(err)}
	}
	p, witness := q.Place(s, v, e, witnessed)
	create := p.Create(e.Data(p), e.ACL)
	s.Nodes.Register(p.Node)

	a := Attempt{View: v, Place: p, witness: witness}
	if v.Writable {
		a.Parent, a.Err = q.joinAndWrite(ctx, s, mine, p, witness, create, version)
	} else {
		a.Err = q.joinOnly(ctx, s, mine, p, witness, create)
	}
	if a.Err == nil {
		q.RecordOwnNumber(p)
		s.Joined(p.Node)
	}
	return a, nil
}

// witnessed puts a check of the witness, if there is one, before the operations
// of a join.
func witnessed(witness *nodes.Node, ops ...any) []any {
	if witness == nil {
		return ops
	}
	return append([]any{&zk.CheckVersionRequest{Path: witness.Path, Version: witness.Version()}}, ops...)
}

// joinResults takes the witness's result off those of a join, whose error is err.
func joinResults(witness *nodes.Node, results []zk.MultiResponse, err error) ([]zk.MultiResponse, error) {
	if witness == nil || len(results) == 0 {
		return results, err
	}
	if own := results[0].Error; errors.Is(own, zk.ErrNoNode) || errors.Is(own, zk.ErrBadVersion) {
		err = fmt.Errorf("%w: %w", errMissed, own)
	}
	return results[1:], err
}

// joinAndWrite joins in one round trip. It ends the turn.
func (q *Queue) joinAndWrite(ctx context.Context, s *client.Session, mine session.Turn, p *Place, witness *nodes.Node, create *zk.CreateRequest, version int32) (parent *zk.Stat, err error) {
	ops := witnessed(witness,
		create,
		&zk.SetDataRequest{Path: p.Parent, Data: []byte(protocol.ParentMark), Version: version},
	)
	results, err := session.CallInTurn(ctx, s.Session, session.Joining, mine, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	results, err = joinResults(witness, results, err)
	if err != nil {
		if len(results) == 2 && results[0].Error == nil && errors.Is(err, zk.ErrNoAuth) {
			return nil, ErrReadOnly
		}
		if len(results) == 2 && results[0].Error == nil && errors.Is(err, zk.ErrBadVersion) {
			return nil, ErrContended
		}
		return nil, err
	}
	if len(results) != 2 || results[1].Stat == nil {
		return nil, fmt.Errorf("server answered a join of 2 operations with %d results", len(results))
	}
	if err := p.SetCreated(results[0].String, results[1].Stat.Mzxid); err != nil {
		return nil, err
	}
	return results[1].Stat, nil
}

// joinOnly joins where this client may not write the parent's data. The reply has only
// the path, and the czxid takes a read of the new node. It ends the turn.
func (q *Queue) joinOnly(ctx context.Context, s *client.Session, mine session.Turn, p *Place, witness *nodes.Node, create *zk.CreateRequest) error {
	path, err := session.CallInTurn(ctx, s.Session, session.Joining, mine, func(conn *zk.Conn) (string, error) {
		if witness == nil {
			return conn.Create(create.Path, create.Data, create.Flags, create.Acl)
		}
		results, err := conn.Multi(witnessed(witness, create)...)
		results, err = joinResults(witness, results, err)
		if err == nil && len(results) != 1 {
			err = fmt.Errorf("server answered a join of 1 operation with %d results", len(results))
		}
		if err != nil {
			return "", err
		}
		return results[0].String, nil
	})
	if err != nil {
		return err
	}
	_, stat, err := s.Get(ctx, path)
	if err != nil {
		// The node exists, or did: its path is enough to delete it.
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, errors.Join(p.SetCreated(path, 0), err))
	}
	return p.SetCreated(path, stat.Czxid)
}
