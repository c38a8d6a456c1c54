// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of Epochs. The zero value of a field means its default.
type Options struct {
	// Owner is the label that other clients see for the claimant of an epoch: at most 4096 bytes. The default is the
	// client's Options.Owner.
	Owner string

	_ struct{}
}

// Epochs counts the terms of one election, in its own node. It is safe for concurrent use.
type Epochs struct {
	client *recipes.Client
	node   *record.Node[content]
	path   string // of the node, below the client's namespace
	owner  string

	mu     sync.Mutex // guards what follows
	last   *Epoch     // the last epoch claimed here, so that a superseded term does not claim another
	unsure attempt    // the last attempt whose outcome is unknown, for the same reason
	usable bool       // a read has shown that the node is not a queue
}

// An attempt is an attempt of a term to claim the epoch of a number.
type attempt struct {
	claim  *recipes.Claim
	number int64
}

// New returns the epochs that are counted in the node at path, below the client's namespace. It sends no request. opts may
// be nil. Use a separate path for each election, and not the path of the election itself: a path that is a queue is refused
// at its first use.
func New(client *recipes.Client, path string, opts *Options) (*Epochs, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := ownerlabel.Check(opts.Owner); err != nil {
		return nil, &recipes.Error{Op: "new epochs", Path: path, Err: err}
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new epochs", Err: err}
	}
	node, err := record.New(client, path, stored)
	if err != nil {
		return nil, fmt.Errorf("new epochs: %w", err)
	}
	es := &Epochs{client: client, node: node, path: path, owner: cmp.Or(opts.Owner, client.Owner())}
	node.Refuse = es.refuse
	return es, nil
}

// Path returns the path of the node, including the namespace.
func (es *Epochs) Path() string { return es.node.Path() }

// Claim claims the next epoch for a term, in one transaction that checks that the term's own node exists and that no other
// epoch was claimed meanwhile. For a lock, pass its hold's Claim.
//
// It waits while no server can be reached, until ctx ends or the term is lost. If the reply is lost, it finds out whether
// the epoch was claimed. For a term that has an epoch already, it returns the same epoch.
//
// After an error the term has no epoch. The error is recipes.ErrLost if the term was lost; a *StaleError if the newest
// epoch belongs to a later term; ctx's; or a server's refusal. If it is recipes.ErrUncertain as well, the
// next epoch may have been claimed for the term nevertheless; nothing was written in it, and Claim can be called again.
func (es *Epochs) Claim(ctx context.Context, claim *recipes.Claim) (*Epoch, error) {
	if claim == nil {
		return nil, &recipes.Error{Op: "claim epoch", Path: es.Path(), Err: errors.New("claim is nil")}
	}
	if e := es.lastOf(claim); e != nil {
		return e, nil
	}
	var mine Record
	unsure := es.unsureOf(claim)
	version, err := es.node.Update(ctx, claim, func(now content, unanswered bool) (*content, error) {
		if unanswered && unsure == 0 {
			unsure = mine.Number
		}
		newest := now.record()
		switch {
		case newest.held(claim):
			mine = newest
			return nil, nil
		case newest.Token >= claim.Token(), newest.byOperator() && unsure != 0 && newest.Number >= unsure:
			// In the second case the term may have had its epoch.
			return nil, &StaleError{Path: es.Path(), Token: claim.Token(), Newest: newest}
		}
		mine = Record{
			Number: newest.Number + 1, Token: claim.Token(), Owner: es.owner, Node: claim.Path(), Since: time.Now().UTC().Round(0),
		}
		return mine.content(), nil
	})
	if err != nil {
		if errors.Is(err, recipes.ErrUncertain) {
			es.setUnsure(claim, mine.Number)
		}
		return nil, fmt.Errorf("claim epoch: %w", err)
	}
	return es.claimed(&Epoch{epochs: es, claim: claim, record: mine, version: version}), nil
}

// unsureOf returns the number of the epoch that the term may have claimed, or 0.
func (es *Epochs) unsureOf(claim *recipes.Claim) int64 {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.unsure.claim != claim {
		return 0
	}
	return es.unsure.number
}

// setUnsure records that the term may have claimed the epoch of that number.
func (es *Epochs) setUnsure(claim *recipes.Claim, number int64) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.unsure.claim != claim {
		es.unsure = attempt{claim, number}
	}
}

// lastOf returns the last epoch that was claimed here if it belongs to the claim, or nil.
func (es *Epochs) lastOf(claim *recipes.Claim) *Epoch {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.last != nil && es.last.claim == claim {
		return es.last
	}
	return nil
}

// claimed makes e the last epoch, unless another call was faster, and returns the last epoch.
func (es *Epochs) claimed(e *Epoch) *Epoch {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.last == nil || es.last.claim != e.claim {
		es.last = e
	}
	return es.last
}

// newestTimeout returns the timeout with which a rejected write reads the epoch that superseded it.
func (es *Epochs) newestTimeout() time.Duration { return es.client.SessionTimeout() / 8 }

// Current returns the newest epoch as seen by the server that this client is connected to, which may lag behind. If no
// epoch was claimed yet, the error is ErrNoEpoch. It is one read, and needs no candidate.
func (es *Epochs) Current(ctx context.Context) (Record, error) {
	newest, err := es.current(ctx)
	if err == nil && newest.Number == 0 {
		err = &recipes.Error{Op: "read", Path: es.Path(), Err: ErrNoEpoch}
	}
	if err != nil {
		return Record{}, fmt.Errorf("current epoch: %w", err)
	}
	return newest, nil
}

// current is like Current, but returns a zero Record if there is no epoch.
func (es *Epochs) current(ctx context.Context) (Record, error) {
	newest, err := es.node.Read(ctx)
	return newest.record(), err
}

// errQueue is the error for a path that is a queue: a contender that joins it may write its node, and so end the epoch.
var errQueue = errors.New("the node is the queue of a lock or an election: give the epochs a separate path")

// refuse returns errQueue if the node is a queue, and an error if it can vanish by itself. After one read that shows that it is
// no queue, it sends no request.
func (es *Epochs) refuse(ctx context.Context, data []byte, stat *zk.Stat) error {
	es.mu.Lock()
	usable := es.usable
	es.mu.Unlock()
	if !usable {
		queue, err := es.node.IsQueue(ctx, data, stat)
		switch {
		case err != nil:
			return err
		case queue:
			return errQueue
		}
		es.mu.Lock()
		es.usable = true
		es.mu.Unlock()
	}
	return record.CheckLasting(ctx, data, stat)
}
