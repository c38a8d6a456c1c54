// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Scheduler runs one job of a service by a schedule. It has no state: the last tick is in ZooKeeper. It is safe for
// concurrent use, and each call of Run is a separate replica.
type Scheduler struct {
	election *election.Election
	last     *recipes.Node
	schedule Schedule
	maxDelay time.Duration
}

// New returns the scheduler at path, below the client's namespace. It sends no request. opts may be nil.
//
// The node at path is that of the election. The last tick is stored beside it, in the persistent node <path>-last, which the
// first leader creates. An existing empty node is used as it is, so that you can create it with other permissions.
func New(client *recipes.Client, path string, schedule Schedule, opts *Options) (*Scheduler, error) {
	fail := func(err error) (*Scheduler, error) {
		return nil, &recipes.Error{Op: "new scheduler", Path: path, Err: err}
	}
	if opts == nil {
		opts = &Options{}
	}
	if err := checkSchedule(schedule); err != nil {
		return fail(err)
	}
	maxDelay, err := opts.maxDelay()
	if err != nil {
		return fail(err)
	}
	e, err := election.New(client, path, &opts.Election)
	if err != nil {
		return nil, fmt.Errorf("new scheduler: %w", err)
	}
	last, err := recipes.NewNode(client, path+"-last")
	if err != nil {
		return nil, fmt.Errorf("new scheduler: %w", err)
	}
	return &Scheduler{election: e, last: last, schedule: schedule, maxDelay: maxDelay}, nil
}

// Election returns the election of the leader, to be observed. A term that was won through its Campaign runs no ticks, and
// prevents all replicas from running them.
func (s *Scheduler) Election() *election.Election { return s.election }

// A Tick is an instant of the schedule for which the job is run.
type Tick struct {
	Time  time.Time     // of the schedule, in UTC; the run begins later
	Token fencing.Token // of the leader's term: the same for all its ticks
}

// Run campaigns, and runs job for each tick while it leads, until ctx is done or job fails.
//
// The tick is stored before job runs, so a tick that was stored is never run again, even if job failed or its process
// crashed. A run delays the next: ticks that pass meanwhile are skipped, except for the newest, which is run next if it is at
// most MaxDelay old.
//
// The context of job is done when ctx is done or the term is lost; context.Cause returns which. A job that must finish
// nevertheless uses context.WithoutCancel, and Options.Election.StopTimeout bounds it.
//
// Run returns what [election.Election.Run] does, where work is job: nil when ctx is done and everything is released, and the
// error of job. If Options.Election.Retry has that retried, Run continues with a later tick. recipes.ErrUncertain can also
// mean that ctx ended while a tick was being stored: the tick may be stored, and job was not run for it. A node <path>-last
// that holds something else is an error.
func (s *Scheduler) Run(ctx context.Context, job func(ctx context.Context, tick Tick) error) error {
	if job == nil {
		return &recipes.Error{Op: "run schedule", Path: s.last.Path(), Err: errors.New("job is nil")}
	}
	err := s.election.Run(ctx, func(ctx context.Context, term *election.Term) error {
		return s.lead(ctx, term, job)
	})
	if err != nil {
		return fmt.Errorf("run schedule: %w", err)
	}
	return nil
}

// Last returns the last tick that was stored, as seen by the server that this client is connected to, which may lag behind.
// If there is none, the error is ErrNone. It is one read, and needs no leader.
func (s *Scheduler) Last(ctx context.Context) (Record, error) {
	last, err := s.read(ctx)
	if err == nil && last.Tick.IsZero() {
		err = &recipes.Error{Op: "read", Path: s.last.Path(), Err: ErrNone}
	}
	if err != nil {
		return Record{}, fmt.Errorf("last tick: %w", err)
	}
	return last, nil
}

// read is like Last, but returns a zero Record if there is no tick.
func (s *Scheduler) read(ctx context.Context) (Record, error) {
	data, stat, err := s.last.Read(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	last, err := decode(data, stat)
	if err != nil {
		return Record{}, &recipes.Error{Op: "read", Path: s.last.Path(), Err: err}
	}
	return last, nil
}
