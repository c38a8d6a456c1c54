// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Election chooses one leader among those who campaign on a path, across all
// processes that use it: at most one Term of it is open at a time, as the package
// documentation states it.
//
// It has no state of its own; what was won is the Term. It is safe for concurrent
// use, and each Campaign is a candidate of its own.
type Election struct {
	line        *recipes.Line
	id          string
	stopTimeout time.Duration
	coolDown    time.Duration
	retry       func(error) bool
	backoff     backoff // to begin with
}

// New returns the election at path, below the client's namespace. It asks no
// server. opts may be nil.
//
// The path is that of a node which holds the candidates and nothing else. It is
// made when it is needed, with those above it, as container nodes.
func New(client *recipes.Client, path string, opts *Options) (*Election, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.check(); err != nil {
		return nil, &recipes.Error{Op: "new election", Path: path, Err: err}
	}
	e := &Election{
		id: opts.ID, stopTimeout: opts.StopTimeout, coolDown: opts.CoolDown, retry: opts.Retry, backoff: newBackoff(opts),
	}
	if e.id == "" {
		e.id = recipes.DefaultOwner()
	}
	if e.coolDown == 0 {
		e.coolDown = DefaultCoolDown
	}
	line, err := recipes.NewLine(client, path, &recipes.LineOptions{Owner: e.id, ReleaseTimeout: opts.ResignTimeout})
	if err != nil {
		return nil, fmt.Errorf("new election: %w", err)
	}
	e.line = line
	return e, nil
}

// Campaign becomes a candidate and waits until it is the leader. Candidates lead
// in the order in which they came.
//
// ctx bounds the wait and not the term. If the session of a candidate dies, it
// becomes one again at the end of the line. On an error it is no candidate any
// more: its node is gone, which Campaign waits for, for the resign timeout at most;
// or it is being taken away in the background, if no server can be reached. A
// create that is under way when ctx ends is seen through to its answer first: a
// round trip as a rule, a quarter of the session timeout at most. No node outlives
// its session. The error is ctx's, recipes.ErrClosed, or what a server refused.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	claim, err := e.line.Claim(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	return &Term{Claim: claim, line: e.line, id: e.id}, nil
}

// A Leader is the candidate that comes first. It is the leader, or about to learn
// that it is: that it knows can only be seen by what it does.
type Leader struct {
	ID    string        // as it calls itself; of nodes that other libraries made, their data
	Token fencing.Token // of its term
	Host  string        // empty if another library made the node
	PID   int           // 0 if another library made the node
	Since time.Time     // when it became a candidate, by the clock of its host
}

func leaderOf(c recipes.Contender) Leader {
	return Leader{ID: c.Owner, Token: c.Token, Host: c.Host, PID: c.PID, Since: c.Since}
}

// Leader returns the leader as the server that this client is connected to sees
// it, which may be somewhat behind; ErrNoLeader if nobody is a candidate. Whoever
// must not obey an old leader checks its token.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	front, err := e.line.First(ctx)
	if errors.Is(err, recipes.ErrEmpty) {
		return Leader{}, &recipes.Error{Op: "leader", Path: e.line.Path(), Err: ErrNoLeader}
	}
	if err != nil {
		return Leader{}, fmt.Errorf("leader: %w", err)
	}
	return leaderOf(front), nil
}

// Candidates returns all candidates, the leader first, as the server that this
// client is connected to sees them. It costs a read for each.
func (e *Election) Candidates(ctx context.Context) ([]Leader, error) {
	contenders, err := e.line.Contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	candidates := make([]Leader, len(contenders))
	for i, c := range contenders {
		candidates[i] = leaderOf(c)
	}
	return candidates, nil
}
