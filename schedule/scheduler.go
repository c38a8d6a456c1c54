// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Scheduler runs one job of a service by a schedule. It has no state: the last activation is in ZooKeeper. It is safe for
// concurrent use, and each call of Run is a separate replica.
type Scheduler struct {
	election *election.Election
	last     *record.Node[content]
	schedule Schedule
	maxDelay time.Duration
	logger   *slog.Logger
}

// New returns the scheduler at path, below the client's namespace. It sends no request. opts may be nil.
//
// The node at path is the election's. The last activation is stored beside it, in the persistent node <path>-last, which the
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
	last, err := record.New(client, path+"-last", stored)
	if err != nil {
		return nil, fmt.Errorf("new scheduler: %w", err)
	}
	last.Refuse = record.CheckLasting
	return &Scheduler{election: e, last: last, schedule: schedule, maxDelay: maxDelay, logger: cmp.Or(opts.Logger, slog.Default())}, nil
}

// Path returns the path of the election, the client's namespace included.
func (s *Scheduler) Path() string { return s.election.Path() }

// Election returns the election of the leader, to be observed. A term that was won through its Campaign runs no activations, and
// prevents all replicas from running them.
func (s *Scheduler) Election() *election.Election { return s.election }

// An Activation is an instant of the schedule for which the job is run, in the term of the leader that runs it. The job has the
// methods of the Term: Commit and Check for writes to ZooKeeper, Token for those to other resources, and Drain, HandOver and
// Resign for a replica that is not to run the next activation.
type Activation struct {
	*election.Term
	Time time.Time // of the schedule, in UTC; the run begins later
}

// Run campaigns, and runs job for each activation while it leads, until ctx is done.
//
// The activation is stored before job runs, so an activation that was stored is never run again, even if job failed or its
// process crashed. A job that fails is logged, and Run continues with the next activation. A run delays the next: activations
// that pass meanwhile are skipped, except for the newest, which is run next if it is at most MaxDelay old.
//
// The context of job is done when ctx is done or the term has ended; context.Cause returns which. A job that must finish
// nevertheless uses context.WithoutCancel, and Options.Election.StopTimeout bounds it.
//
// Run returns what [election.Election.Run] does, except for the error of a job: nil when ctx is done and everything is
// released, and the error with which an activation could not be stored, after the leader has resigned, unless
// Options.Election.Retry has that retried. recipes.ErrUncertain can also mean that ctx ended while an activation was being
// stored: the activation may be stored, and job was not run for it. A node <path>-last that holds something else is an error.
func (s *Scheduler) Run(ctx context.Context, job func(ctx context.Context, activation Activation) error) error {
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

// Last returns the last activation that was stored, as seen by the server that this client is connected to, which may lag behind.
// If there is none, the error is ErrNoActivation. It is one read, and needs no leader.
func (s *Scheduler) Last(ctx context.Context) (Record, error) {
	last, err := s.read(ctx)
	if err == nil && last.Time.IsZero() {
		err = &recipes.Error{Op: "read", Path: s.last.Path(), Err: ErrNoActivation}
	}
	if err != nil {
		return Record{}, fmt.Errorf("last activation: %w", err)
	}
	return last, nil
}

// read is like Last, but returns a zero Record if there is no activation.
func (s *Scheduler) read(ctx context.Context) (Record, error) {
	last, err := s.last.Read(ctx)
	return last.record(), err
}
