// SPDX-License-Identifier: Apache-2.0

// Package clientgo runs the callbacks of client-go's leader election in a term of an [election.Election]. It is for programs
// that are written for k8s.io/client-go/tools/leaderelection, and are to be elected by ZooKeeper instead of by a lease
// object in Kubernetes: they pass the [leaderelection.LeaderCallbacks] that they have, and need no resourcelock.
//
// # What differs from client-go
//
//   - The context of OnStartedLeading is done before another candidate can lead, under the conditions that package election
//     states, and context.Cause returns why. It carries no token: work that needs one uses [election.Election.Run].
//   - The term is resigned after OnStartedLeading has returned, and not while it runs. Run always releases on cancel, as
//     client-go does with ReleaseOnCancel; unlike client-go, it waits for the work first.
//   - Run returns an error, and waits for all callbacks.
//   - The leader's identity is Owner of election.Options.
//
// # With controller-runtime
//
// [WithLock] has a lock for LeaderElectionResourceLockInterface of manager.Options: Runnables that need leader election run on
// the leader, and all others, such as webhooks, on every replica. examples/controllerruntime is such a program; its election
// sends no request to Kubernetes.
//
// Where nothing of the manager is to run on the other replicas, turn its own election off, LeaderElection: false, and call
// Manager.Start in OnStartedLeading. A manager starts once, so exit the process when Run or WithLock returns.
package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
)

// patience is how long OnStoppedLeading waits for OnStartedLeading at most. It leaves a process that Kubernetes ends, which
// does so 30 s after its SIGTERM, time to exit by itself.
const patience = 10 * time.Second

// Run campaigns, and leads for one term. As client-go's RunOrDie does, it returns when ctx is done
// or the term has ended, and does not campaign again; call it again for that. It waits until
// all callbacks have returned, OnStartedLeading at most for the election's StopTimeout.
//
// OnStartedLeading is called when the process begins to lead. Its ctx is done when the term ends.
// The process leads until then, even if the callback has returned. The node stays until the callback
// has returned, so the callback should wait for everything that it has started.
//
// OnStoppedLeading is called once, and may exit the process:
//
//   - when ctx is done, after OnStartedLeading has returned and the term was resigned: another candidate can lead
//     immediately. If OnStartedLeading has not returned 10 s after its context was done, or within the election's
//     StopTimeout, OnStoppedLeading does not wait for it. If it exits then, another candidate leads when the session
//     has expired;
//   - when the term is lost, immediately: another candidate may lead soon;
//   - if the process never led, before Run returns.
//
// OnNewLeader, if not nil, is called with the owner label of each leader that an observer sees, this
// process included, when it differs from the last. One call runs at a time.
//
// Run returns the errors of Election.Run, and in addition one that matches
// recipes.ErrLost if the term was lost. A panic of OnStartedLeading passes through Run, without a call of
// OnStoppedLeading.
func Run(ctx context.Context, e *election.Election, callbacks leaderelection.LeaderCallbacks) error {
	return run(ctx, e, callbacks, true)
}

// RunConfig is Run with the callbacks of config, for a program that has a configuration of client-go's election. If
// ReleaseOnCancel is false, OnStoppedLeading is called as soon as ctx is done, before the term is resigned, as by client-go:
// if it exits the process, work that it ends by that has stopped before another candidate leads, which then waits until the
// session has expired. If ReleaseOnCancel is true, RunConfig is Run.
//
// The other fields are not used: the path of the election and the session's timeout take the place of Lock and of the
// durations, and a WatchDog reports no failure. Use Options.Health of package election for that.
func RunConfig(ctx context.Context, e *election.Election, config leaderelection.LeaderElectionConfig) error {
	return run(ctx, e, config.Callbacks, config.ReleaseOnCancel)
}

func run(ctx context.Context, e *election.Election, callbacks leaderelection.LeaderCallbacks, releaseFirst bool) error {
	switch {
	case callbacks.OnStartedLeading == nil:
		return errors.New("run callbacks: OnStartedLeading is nil")
	case callbacks.OnStoppedLeading == nil:
		return errors.New("run callbacks: OnStoppedLeading is nil")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observed := make(chan error, 1)
	go func() { observed <- observe(ctx, e, callbacks.OnNewLeader) }()

	stopped := once(callbacks.OnStoppedLeading)
	ended := make(chan error, 1) // gets the loss of the term, unless OnStartedLeading does not return
	err := e.Run(ctx, func(term context.Context, t *election.Term) error {
		lead(term, t, callbacks.OnStartedLeading, stopped, releaseFirst)
		ended <- t.Err()
		cancel() // one term
		return context.Cause(term)
	})
	stopped() // now that the term was resigned, unless it was called before
	cancel()
	var lost error
	select {
	case lost = <-ended:
	default: // election.ErrOverrun, or no term
	}
	return errors.Join(err, lost, <-observed)
}

// once returns a function whose first call calls f. The other calls wait for f; unlike sync.Once, they wait without a mutex.
func once(f func()) func() {
	begun, done := make(chan struct{}, 1), make(chan struct{})
	return func() {
		select {
		case begun <- struct{}{}:
			defer close(done) // also if f panics, or ends the goroutine: the other calls would wait for ever
			f()
		default:
			<-done
		}
	}
}

// lead calls started, and returns when it has returned and the term has ended. It calls stopped before the term is resigned
// if that cannot wait.
func lead(ctx context.Context, t *election.Term, started func(context.Context), stopped func(), releaseFirst bool) {
	var watch sync.WaitGroup
	defer watch.Wait()
	returned := make(chan struct{})
	defer close(returned) // also if started panics
	watch.Go(func() {
		if urgent(ctx, t, returned, releaseFirst) {
			stopped()
		}
	})
	started(ctx)
	<-ctx.Done()
	if t.Err() != nil || !releaseFirst {
		stopped()
	}
}

// urgent waits, while the work runs, until the term is lost or the work is overdue after its context was done. It reports
// whether that was so before the work returned.
func urgent(ctx context.Context, t *election.Term, returned <-chan struct{}, releaseFirst bool) bool {
	select {
	case <-t.Done():
		return true
	case <-returned:
		return false
	case <-ctx.Done():
	}
	if !releaseFirst {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.Done():
		return true
	case <-timer.C:
		return true
	case <-returned:
		return false
	}
}

// observe calls f with the owner label of each new leader until ctx is done.
func observe(ctx context.Context, e *election.Election, f func(string)) error {
	if f == nil {
		return nil
	}
	var last *string
	for leader, err := range e.Observe(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("new leader: %w", err)
		case last == nil || *last != leader.Owner:
			last = &leader.Owner
			f(leader.Owner)
		}
	}
	return nil
}
