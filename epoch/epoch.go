// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Epoch is the right of a term to write until a later epoch is claimed. It is safe for concurrent use.
type Epoch struct {
	epochs  *Epochs
	claim   *recipes.Claim
	record  Record
	version int32 // of the node, until another client writes it
}

// Number returns the epoch's number: 1 for the first epoch, and one more for each later one.
func (e *Epoch) Number() int64 { return e.record.Number }

// Commit carries out ZooKeeper operations if, and only if, the term is held and its epoch is the newest: it sends them in
// one transaction with a check of the term's own node and of the epoch's node. Without operations it only checks.
//
// Operations and responses are as in recipes.Claim.Commit. Operations on the epoch's node are refused. The transaction
// is sent once. ErrUncertain means that no answer arrived, and that the operations were carried out as a whole, or not at
// all. After any other error nothing was written: recipes.ErrLost if the term was lost; a *StaleError if there is a later
// epoch, or if the epoch's node was written or deleted by an operator; or the error with which a server refused. To name
// the later epoch, a Commit that fails reads the node, for an eighth of the session timeout at most.
func (e *Epoch) Commit(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	fail := func(err error) error {
		return fmt.Errorf("commit in epoch %d: %w", e.Number(), err)
	}
	for i, op := range ops {
		if touches(op, e.epochs.path) {
			return nil, fail(&recipes.Error{
				Op: "commit", Path: e.epochs.Path(), Err: fmt.Errorf("operation %d is on the epoch's own node: remove it, since Commit checks the node and only Claim writes it", i),
			})
		}
	}
	check := &zk.CheckVersionRequest{Path: e.epochs.path, Version: e.version}
	responses, err := e.claim.Commit(ctx, append([]any{check}, ops...)...)
	switch {
	case err == nil:
		return responses[1:], nil
	case errors.Is(err, recipes.ErrLost):
		return nil, fail(e.lost(ctx, err))
	case len(responses) == 0:
		return nil, fail(err)
	}
	switch refusal := responses[0].Error; {
	case errors.Is(refusal, zk.ErrNoNode):
		return nil, fail(e.stale(Record{}, errors.New("its node was deleted")))
	case errors.Is(refusal, zk.ErrBadVersion):
		return nil, fail(e.superseded(ctx))
	case refusal != nil:
		return nil, fail(err) // for example, no permission to read the node
	}
	return responses[1:], fail(err)
}

// touches reports whether an operation is on the node at path. Claim.Commit refuses values that are no operations.
func touches(op any, path string) bool {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return op != nil && op.Path == path
	case *zk.SetDataRequest:
		return op != nil && op.Path == path
	case *zk.DeleteRequest:
		return op != nil && op.Path == path
	case *zk.CheckVersionRequest:
		return op != nil && op.Path == path
	}
	return false
}

func (e *Epoch) stale(newest Record, err error) error {
	return &StaleError{Path: e.epochs.Path(), Epoch: e.Number(), Token: e.record.Token, Newest: newest, Err: err}
}

// superseded returns the error of an epoch whose node has another version by now.
func (e *Epoch) superseded(ctx context.Context) error {
	newest, err := e.newest(ctx)
	switch {
	case err != nil:
		return e.stale(Record{}, fmt.Errorf("its node was written, and does not show by which term: %w", err))
	case newest.Number == 0:
		return e.stale(Record{}, errors.New("its node was emptied or deleted"))
	case !newest.same(e.record):
		return e.stale(newest, nil)
	}
	return e.stale(newest, errors.New("its node was rewritten by an operator"))
}

// lost returns the error of an epoch whose term was lost: a *StaleError if there is a later epoch, and loss otherwise.
func (e *Epoch) lost(ctx context.Context, loss error) error {
	newest, err := e.newest(ctx)
	if err != nil || !newest.later(e.record) {
		return loss
	}
	return e.stale(newest, loss)
}

// newest reads the newest epoch, to be named in an error.
func (e *Epoch) newest(ctx context.Context) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e.epochs.newestTimeout())
	defer cancel()
	return e.epochs.current(ctx)
}
