// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Send carries out the attempts, which join different queues of one client, in one transaction, and
// records the answer in each. If it returns an error, nothing was sent.
//
// A single attempt may share its transaction with writes of other callers, unless it depends on what another client does: on the
// parent's version, or on the node of another client.
func Send(ctx context.Context, s *client.Session, attempts ...*Attempt) error {
	var ops []any
	ends := make([]int, len(attempts)) // of the operations of each
	results, err := s.WriteGrouped(ctx, session.Joining, &session.Write{
		Queue: attempts[0].Queue.path,
		Alone: len(attempts) > 1 || attempts[0].Version != -1 || attempts[0].isUncertain(s),
		// The names are chosen as late as possible. In a burst of joins, all but the first
		// few wait for their turn, and then have a witness in the nodes of those.
		Operations: func() []any {
			ops = make([]any, 0, maxOperations*len(attempts))
			for i, a := range attempts {
				ops = a.operations(s, ops)
				ends[i] = len(ops)
			}
			return ops
		},
	})
	switch {
	case ops == nil:
		return &recipes.Error{Op: "join", Path: attempts[0].Queue.path, Err: err}
	case err == nil && len(results) != len(ops):
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
func (a *Attempt) created(ctx context.Context, s *client.Session, results []zk.MultiResponse) (err error) {
	if a.isWitnessed() {
		results = results[1:]
	}
	path := results[0].String
	var parent, own *zk.Stat
	var czxid int64
	if a.View.Writable {
		if parent = results[1].Stat; parent == nil {
			return fmt.Errorf("server answered a write of %s without its Stat", a.Queue.path)
		}
		czxid = parent.Mzxid
	} else if _, own, err = s.Get(ctx, path); err == nil {
		czxid = own.Czxid
	}
	misnamed := a.Place.setCreated(path, czxid)
	if err != nil {
		// The node exists, or did: its path is enough to delete it.
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, errors.Join(misnamed, err))
	}
	if misnamed == nil {
		a.parent = parent
	}
	return misnamed
}
