// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Election chooses one leader among the candidates on a path, across all processes
// that use the path: at most one Term of it is open at a time, under the conditions
// that the package documentation states.
//
// It has no state: the state of a leadership is in its Term. It is safe for concurrent
// use, and each call of Campaign is a separate candidate.
type Election struct {
	queue       *recipes.Queue
	id          string
	stopTimeout time.Duration
	coolDown    time.Duration
	retry       func(error) bool
	backoff     backoff // the initial state for each Run
}

// New returns the election at path, below the client's namespace. It sends no
// request. opts may be nil.
//
// The node at path holds the candidates and nothing else. It is created when it is
// needed, with missing nodes above it, as container nodes.
func New(client *recipes.Client, path string, opts *Options) (*Election, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.check(); err != nil {
		return nil, &recipes.Error{Op: "new election", Path: path, Err: err}
	}
	e := &Election{
		stopTimeout: opts.StopTimeout, coolDown: opts.CoolDown, retry: opts.Retry, backoff: newBackoff(opts),
	}
	if e.coolDown == 0 {
		e.coolDown = DefaultCoolDown
	}
	queue, err := recipes.NewQueue(client, path, &recipes.QueueOptions{Owner: opts.ID, ReleaseTimeout: opts.ReleaseTimeout})
	if err != nil {
		return nil, fmt.Errorf("new election: %w", err)
	}
	e.queue, e.id = queue, cmp.Or(opts.ID, client.Owner())
	return e, nil
}

// Campaign adds a candidate and waits until it is the leader. Candidates lead in the
// order in which they joined the queue.
//
// ctx bounds the wait and not the term. A candidate that loses its session joins
// again at the end of the queue. After an error there is no candidate, and its node
// is gone: Campaign waits for the deletion, for the release timeout at most. If no
// server can be reached, the node is deleted in the background. If a create is in
// progress when ctx ends, Campaign first waits for its answer: a round trip as a
// rule, a quarter of the session timeout at most. No node outlives its session. The
// error is ctx's, recipes.ErrClosed, or that with which a server refused.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	claim, err := e.queue.Claim(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	return &Term{Claim: claim, queue: e.queue, id: e.id}, nil
}

// A Leader is the first candidate in the queue. It is the leader, or is about to
// learn that it is: other clients cannot see whether it has been granted its term.
type Leader struct {
	ID    string        // Options.ID of the candidate; the data of a node that another library created
	Token fencing.Token // of its term
	Host  string        // empty if another library created the node
	PID   int           // 0 if another library created the node
	Since time.Time     // when it became a candidate, by the clock of its host
}

func leaderOf(c recipes.Contender) Leader {
	return Leader{ID: c.Owner, Token: c.Token, Host: c.Host, PID: c.PID, Since: c.Since}
}

// Leader returns the leader as seen by the server that this client is connected to,
// which may lag behind. If there is no candidate, the error is ErrNoLeader. A resource
// that must not obey a former leader checks the token.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	front, err := e.queue.First(ctx)
	if errors.Is(err, recipes.ErrEmpty) {
		return Leader{}, &recipes.Error{Op: "leader", Path: e.queue.Path(), Err: ErrNoLeader}
	}
	if err != nil {
		return Leader{}, fmt.Errorf("leader: %w", err)
	}
	return leaderOf(front), nil
}

// Candidates returns all candidates, the leader first, as seen by the server that
// this client is connected to. It costs a read for each.
func (e *Election) Candidates(ctx context.Context) ([]Leader, error) {
	contenders, err := e.queue.Contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	candidates := make([]Leader, len(contenders))
	for i, c := range contenders {
		candidates[i] = leaderOf(c)
	}
	return candidates, nil
}
