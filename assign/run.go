// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Run joins as a member, and runs work for each partition that this member owns, until ctx is done. It campaigns as well: one of
// the members is the leader.
//
// Each call of work has its own goroutine and context. The context is done when the partition is assigned to another member, with
// the cause ErrMoved; when the claim is lost, with a cause that matches recipes.ErrLost; or when Run ends. Then the work should return:
// the member releases the partition when it has, and no other member owns it before, except after a loss. Work that returns before
// that, with an error, nil or a panic, affects its own partition alone: see Options.Retry. A call of work never begins before an
// earlier one for the same partition in this process has returned.
//
// When Run ends, the member tells the leader that it leaves, and all contexts are done at the same time. Each partition is
// released when its work has returned. Run returns
//
//   - nil when ctx is done and all partitions are released; recipes.ErrUncertain if a release was not confirmed, or if work
//     returned ErrUncertain after its context was done;
//   - the error of work that Retry rejected, or election.ErrUnhealthy with the reason from Health;
//   - election.ErrOverrun when work has not returned within StopTimeout. The work goes on, and its partition stays owned until it has
//     returned or the session ends. Exit the process;
//   - recipes.ErrClosed when the client was closed, or the error with which a server refused to let the member join, campaign, or
//     read its record.
//
// Once ctx is done, Run returns within StopTimeout, twice ReleaseTimeout and 3T/8, or later by election.DefaultHealthTimeout if a call of Health does not
// return, where T is the session timeout; it lasts for T/24 at least, so that the leader is notified. While another process has the same ID, Run waits for it to leave. A second call at the same time returns an
// error.
func (a *Assign) Run(ctx context.Context, work func(ctx context.Context, o *Ownership) error) error {
	fail := func(err error) error { return &recipes.Error{Op: "run", Path: a.Path(), Err: err} }
	switch {
	case ctx == nil:
		return fail(errors.New("context is nil"))
	case work == nil:
		return fail(errors.New("work is nil"))
	}
	if err := a.run(ctx, work); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func (a *Assign) run(ctx context.Context, work func(context.Context, *Ownership) error) error {
	if a.opts.Health != nil {
		var unfit error
		a.opts.checkHealth(ctx, func(err error) { unfit = err })
		if unfit != nil {
			return unfit
		}
	}
	member, err := a.join(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, recipes.ErrUncertain) {
		return nil
	}
	if err != nil {
		return err
	}
	r := &run{Assign: a, work: work, partitions: make(map[string]*partition)}
	r.ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	var others sync.WaitGroup
	others.Go(func() { r.failed(r.leader.Run(r.ctx, r.lead)) })
	others.Go(r.follow)
	others.Go(r.checkUp)
	select {
	case <-r.ctx.Done():
	case <-member.Done():
		r.failed(member.Err())
	}
	left := r.leave(ctx, member)
	others.Wait() // after that, no partition is added
	r.calls.Wait()
	r.failed(<-left)
	r.failed(r.settle(ctx))
	return errors.Join(r.failures...)
}

// join stores the partitions, unless a set is stored, and registers the member.
func (a *Assign) join(ctx context.Context) (*group.Membership, error) {
	if a.opts.Partitions != nil {
		stored, err := a.set.Read(ctx)
		if err == nil && stored.Partitions == nil {
			err = a.storeOptions(ctx)
		}
		if err != nil && !record.IsForeign(err) { // the leader reports that
			return nil, err
		}
	}
	data, err := memberships.Encode(a.membership(false))
	if err != nil {
		return nil, err
	}
	return a.members.Join(ctx, a.opts.ID, data)
}

func (a *Assign) membership(leaving bool) membership {
	m := membership{Weight: a.opts.Weight, RejoinWait: a.opts.RejoinWait, Leaving: leaving}
	if !leaving {
		m.Metadata = a.opts.Metadata
	}
	return m
}

// leave announces that the member leaves, and then ends the membership. The leader reads members at most once in T/48: it would miss an
// announcement whose node is deleted immediately, and wait for the member to rejoin.
func (a *Assign) leave(ctx context.Context, member *group.Membership) <-chan error {
	left := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.client.SessionTimeout()/24)
		defer cancel()
		data, err := memberships.Encode(a.membership(true))
		if err == nil && member.Err() == nil {
			err = member.Update(ctx, data)
		}
		if err == nil && member.Err() == nil {
			<-ctx.Done()
		}
		// An announcement that did not succeed costs the successors the wait for this member, and nothing else.
		if left <- member.Leave(ctx); err != nil {
			a.opts.Logger.Warn("member of an assignment leaves without notice", "path", a.Path(), "member", a.opts.ID, "error", err)
		}
	}()
	return left
}

// A run is one call of Run.
type run struct {
	*Assign
	work  func(context.Context, *Ownership) error
	ctx   context.Context // done when Run ends; the cause is the reason
	end   context.CancelCauseFunc
	calls sync.WaitGroup // of work, and of the loops around it

	mu         sync.Mutex            // guards what follows
	partitions map[string]*partition // that are assigned to the member, or whose work has not returned
	failures   []error               // that Run returns
	uncertain  []string              // partitions whose release was not confirmed
}

// failed ends Run with an error, unless it is nil.
func (r *run) failed(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	r.failures = append(r.failures, err)
	r.mu.Unlock()
	r.end(err)
}

// checkUp calls Health until Run ends.
func (r *run) checkUp() {
	if r.opts.Health == nil {
		return
	}
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(election.DefaultHealthInterval):
		}
		r.opts.checkHealth(r.ctx, r.failed)
	}
}

// follow applies each version of the member's record, until Run ends. A record of an earlier session is not newer than one of this session: a server
// opens a session only when it has applied all that was committed before.
func (r *run) follow() {
	for {
		s, changed, err := r.share.Watch(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return
		case record.IsForeign(err):
			// Only the leader decides which partitions move: the member goes on with those that it has.
			r.opts.Logger.Error("record of a member cannot be read", "path", r.share.Path(), "error", err)
		case err != nil:
			r.failed(err)
			return
		default:
			r.apply(s.Partitions)
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return
		}
	}
}

// apply makes those the partitions that are assigned to the member.
func (r *run) apply(names []string) {
	var moved []context.CancelCauseFunc
	named := make(map[string]bool, len(names))
	r.mu.Lock()
	for _, name := range names {
		named[name] = true
		p := r.partitions[name]
		if p == nil {
			p = &partition{run: r, name: name}
			r.partitions[name] = p
			r.calls.Go(p.loop)
		}
		if p.ctx == nil {
			p.ctx, p.moved = context.WithCancelCause(r.ctx)
		}
	}
	for name, p := range r.partitions {
		if !named[name] && p.ctx != nil {
			moved = append(moved, p.moved)
			p.ctx = nil
		}
	}
	r.mu.Unlock()
	for _, cancel := range moved {
		cancel(ErrMoved)
	}
}

// settle waits until no node of a partition is left that this client no longer wants.
func (r *run) settle(ctx context.Context) error {
	left := r.uncertain // no goroutine of this run is left
	for _, q := range r.client.Queues() {
		if name, below := strings.CutPrefix(q.Path, r.client.Path(r.path+"/owned/")); below && q.Deleting+q.Joining > 0 {
			left = append(left, name)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(r.opts.ReleaseTimeout, r.client.SessionTimeout()))
	defer cancel()
	for _, name := range left {
		q, err := r.queue(name)
		if err == nil {
			err = q.Settle(ctx)
		}
		if err != nil {
			return err // the others have the same reason
		}
	}
	return nil
}
