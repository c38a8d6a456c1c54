// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Send carries out the attempts, which join different queues of one client, in one transaction, and
// records the answer in each. If it returns an error, nothing was sent.
func Send(ctx context.Context, s *client.Session, attempts ...*Attempt) error {
	// The names are chosen as late as possible. In a burst of joins, all but the first
	// few wait for their turn, and then have a witness in the nodes of those.
	mine, err := s.TakeTurn(ctx, session.Joining)
	if err != nil {
		return &recipes.Error{Op: "join", Path: attempts[0].Queue.path, Err: session.NotSent(err)}
	}
	var ops []any
	ends := make([]int, len(attempts)) // of the operations of each
	for i, a := range attempts {
		ops = append(ops, a.operations(s)...)
		ends[i] = len(ops)
	}
	results, err := session.CallInTurn(ctx, s.Session, session.Joining, mine, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return transact(conn, ops)
	})
	if err == nil && len(results) != len(ops) {
		err = fmt.Errorf("server answered a join of %d operations with %d results", len(ops), len(results))
	}
	refused := slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
	begin := 0
	for i, a := range attempts {
		switch {
		case err == nil:
			a.Err = a.created(ctx, s, results[begin:ends[i]])
		case refused < 0 || session.OutcomeOf(err) != session.Refused:
			a.Err = err
		case begin <= refused && refused < ends[i]:
			a.Refused, a.Err = true, refusal(ops[refused], err)
		default:
			a.Err = ErrContended // there is no node because of another queue
		}
		begin = ends[i]
	}
	return nil
}

// operations names the node, registers it, and returns what the transaction does for it: it checks
// the witness, if there is one, creates the node, and writes the parent if that is possible.
func (a *Attempt) operations(s *client.Session) (ops []any) {
	a.place(s)
	if w := a.witness; w != nil {
		ops = append(ops, &zk.CheckVersionRequest{Path: w.Path, Version: w.Version()})
	}
	ops = append(ops, a.Place.create(a.Entry.Data(a.Place), a.Entry.ACL))
	if a.View.Writable {
		ops = append(ops, &zk.SetDataRequest{Path: a.Queue.path, Data: []byte(protocol.ParentMark), Version: a.Version})
	}
	s.Nodes.Register(a.Place.Node)
	return ops
}

// transact sends the operations of a join. A create alone needs no transaction.
func transact(conn *zk.Conn, ops []any) ([]zk.MultiResponse, error) {
	if create, ok := ops[0].(*zk.CreateRequest); ok && len(ops) == 1 {
		path, err := conn.Create(create.Path, create.Data, create.Flags, create.Acl)
		return []zk.MultiResponse{{String: path, Error: err}}, err
	}
	return conn.Multi(ops...)
}

// refusal returns the error of an attempt to join, of whose operations the server has refused op.
func refusal(op any, err error) error {
	switch op.(type) {
	case *zk.CheckVersionRequest:
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
			return fmt.Errorf("%w: %w", errMissed, err)
		}
	case *zk.SetDataRequest:
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return ErrReadOnly
		case errors.Is(err, zk.ErrBadVersion):
			return ErrContended
		}
	}
	return err
}

// created records the node that was created. Where the parent was not written, the answer has only
// the path, and the czxid takes a read of the new node.
func (a *Attempt) created(ctx context.Context, s *client.Session, results []zk.MultiResponse) error {
	if a.witness != nil {
		results = results[1:]
	}
	path := results[0].String
	var czxid int64
	var parent *zk.Stat
	if a.View.Writable {
		if parent = results[1].Stat; parent == nil {
			return errors.New("server answered a write of the parent without its Stat")
		}
		czxid = parent.Mzxid
	} else {
		_, stat, err := s.Get(ctx, path)
		if err != nil {
			// The node exists, or did: its path is enough to delete it.
			return fmt.Errorf("%w: %w", sentinel.ErrUncertain, errors.Join(a.Place.setCreated(path, 0), err))
		}
		czxid = stat.Czxid
	}
	if err := a.Place.setCreated(path, czxid); err != nil {
		return err
	}
	a.parent = parent
	a.Queue.recordOwnNumber(a.Place)
	s.Joined(a.Place.Node)
	return nil
}
