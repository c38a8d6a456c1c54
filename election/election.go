// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/backoff"
	"github.com/lockkeeper/lockkeeper/internal/lookup"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Election chooses one leader among the candidates on a path, across all processes
// that use the path: at most one Term of it is open at a time, under the conditions
// that the package documentation states.
//
// The state of a leadership is in its Term. An Election is safe for concurrent
// use, and each call of Campaign is a separate candidate.
type Election struct {
	client      *recipes.Client
	path        string // below the client's namespace
	queue       *queue.Queue
	value       *record.Node[proclamation]        // what the leader has published
	handover    *record.Node[request]             // which candidate is to lead next
	liveness    *record.Node[sign]                // that a candidate with a priority lives
	leaders     *lookup.Source[recipes.Contender] // read for calls of Campaign that are about to time out
	owner       string
	stopTimeout time.Duration
	coolDown    time.Duration
	retry       func(error) bool
	backoff     backoff.Backoff // the initial state for each Run
	health      health
	newest      atomic.Pointer[Term] // that was granted, for Ready

	priority     int
	priorityWait time.Duration
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
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new election", Err: err}
	}
	e := &Election{
		stopTimeout: opts.StopTimeout, coolDown: opts.CoolDown, retry: opts.Retry, backoff: opts.backoff(),
		health: newHealth(opts), priority: opts.Priority, priorityWait: priorityWait(opts),
	}
	if e.coolDown == 0 {
		e.coolDown = DefaultCoolDown
	}
	queue, err := queue.New(client, path, &queue.Options{
		Owner: opts.Owner, ReleaseTimeout: opts.ReleaseTimeout, LockDelay: opts.LockDelay, Fence: opts.Fence,
	})
	if err != nil {
		return nil, fmt.Errorf("new election: %w", err)
	}
	var errs [3]error
	e.value, errs[0] = record.New(client, path+valueSuffix, proclamations)
	e.handover, errs[1] = record.New(client, path+requestSuffix, requests)
	e.liveness, errs[2] = record.New(client, path+livenessSuffix, signs)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("new election: %w", err)
	}
	e.leaders = lookup.NewSource(queue.First)
	e.client, e.path, e.queue, e.owner = client, path, queue, cmp.Or(opts.Owner, client.Owner())
	return e, nil
}

// Path returns the path of the election, the client's namespace included.
func (e *Election) Path() string { return e.queue.Path() }

// A Leader is the first candidate in the queue. It is the leader, or is about to
// learn that it is: other clients cannot see whether it has been granted its term.
type Leader struct {
	Owner string        // Options.Owner of the candidate; the data of a node that another library created
	Token fencing.Token // of its term
	Host  string        // empty if another library created the node
	PID   int           // 0 if another library created the node
	Since time.Time     // when it became a candidate, by the clock of its host

	Priority int // Options.Priority of the candidate, 0 if another library created the node

	Value    string // of its Term.Proclaim, empty before it; not in the result of Candidates
	Draining bool   // by its Term.Drain; not in the result of Candidates
}

func leaderOf(c recipes.Contender) Leader {
	return Leader{Owner: c.Owner, Token: c.Token, Host: c.Host, PID: c.PID, Since: c.Since, Priority: c.Priority}
}

// Leader returns the leader as seen by the server that this client is connected to,
// which may lag behind. If there is no candidate, the error is ErrNoLeader. A resource
// that must not obey a former leader checks the token.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	front, err := e.queue.First(ctx)
	if errors.Is(err, queue.ErrEmpty) {
		return Leader{}, &recipes.Error{Op: "leader", Path: e.queue.Path(), Err: ErrNoLeader}
	}
	if err != nil {
		return Leader{}, fmt.Errorf("leader: %w", err)
	}
	value, err := e.value.Read(ctx)
	if err != nil && !record.IsForeign(err) { // other data is no value of this leader
		return Leader{}, fmt.Errorf("leader: %w", err)
	}
	leader, _ := leaderOf(front).withValue(value)
	return leader, nil
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
