// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockkeeper/lockkeeper/election"
)

// errNotLeader is why a job does not run on this pod.
var errNotLeader = errors.New("another pod leads, or none")

// An elector is a gocron.Elector: the jobs of a scheduler run on the pod that leads an election. Pass it to
// gocron.WithDistributedElector, and run it while the scheduler runs. One that does not run never leads.
type elector struct {
	election *election.Election

	mu     sync.Mutex
	leader *leader // nil while the pod does not lead; guarded by mu
}

var _ gocron.Elector = (*elector)(nil)

// A leader is one term and its jobs.
type leader struct {
	term *election.Term
	jobs sync.WaitGroup // Add only under mu, while it is elector.leader: no job begins after Wait
}

// Run campaigns until ctx is done. It resigns when the jobs of its term have returned, so that no job of the next leader
// overlaps them. A term that is lost ends before. Run returns the errors of Election.Run. After an
// error this pod does not lead again: its scheduler runs no job and reports nothing, so the program must end.
func (e *elector) Run(ctx context.Context) error {
	return e.election.Run(ctx, func(ctx context.Context, term *election.Term) error {
		l := &leader{term: term}
		e.set(l)
		<-ctx.Done()
		e.set(nil)
		l.jobs.Wait()
		return context.Cause(ctx)
	})
}

func (e *elector) set(l *leader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = l
}

// IsLeader returns nil if this pod leads. gocron calls it before each run of a job. The term may end between that and the
// run: job asks again.
func (e *elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leader == nil {
		return errNotLeader
	}
	return e.leader.term.Err()
}

// job returns the function for gocron.NewTask. It calls f with a context that is also done when the term is lost. f must
// return soon then, because the jobs of another pod can begin, and must send term.Token with its writes: a job that is
// paused does not see that its context is done.
func (e *elector) job(f func(ctx context.Context, term *election.Term) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		l, err := e.begin()
		if err != nil {
			return err
		}
		defer l.jobs.Done()
		ctx, cancel := l.term.Context(ctx)
		defer cancel()
		return f(ctx, l.term)
	}
}

// begin returns the leader whose term a job that begins belongs to.
func (e *elector) begin() (*leader, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leader == nil {
		return nil, errNotLeader
	}
	e.leader.jobs.Add(1)
	return e.leader, nil
}
