// SPDX-License-Identifier: Apache-2.0

// Package clientgo runs the callbacks of client-go's leader election in a term of an [election.Election]. It is for programs
// that are written for k8s.io/client-go/tools/leaderelection, and are to be elected by ZooKeeper instead of by a lease
// object in Kubernetes: they pass the [leaderelection.LeaderCallbacks] that they have, and need no resourcelock.
//
// # What differs from client-go
//
//   - The context of OnStartedLeading is done before another candidate can lead, under the conditions that package election
//     states, and context.Cause returns why. It carries no token: work that needs one uses [election.Election.Run].
//   - The term is resigned after OnStartedLeading has returned, and not while it runs.
//   - Run returns an error, and waits for all callbacks.
//   - The leader's ID is that of election.Options.
//
// # With controller-runtime
//
// Turn the manager's own election off: LeaderElection: false in manager.Options. Call Manager.Start in OnStartedLeading, in
// which case nothing of the manager runs on the other replicas. Where these serve webhooks, use two managers: the first
// runs everywhere, and has a Runnable that runs this election and starts the second one, with the controllers. The example
// has that Runnable. A manager starts once, so exit the process when Run returns.
package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
)

// Run campaigns, and leads for one term. As client-go's RunOrDie does, it returns when ctx is done
// or the term has ended, and does not campaign again; call it again for that. It waits until
// all callbacks have returned, OnStartedLeading at most for the election's StopTimeout.
//
// OnStartedLeading is called when the process begins to lead. Its ctx is done when the term ends.
// The process leads until then, even if the callback has returned. The node stays until the callback
// has returned, so the callback should wait for everything that it has started.
//
// OnStoppedLeading is called once: when the term ends, or, if the process never led, before Run
// returns. It does not wait for OnStartedLeading, as in client-go, so that it may exit the process.
//
// OnNewLeader, if not nil, is called with the ID of each leader that an observer sees, this
// process included, when it differs from the last. One call runs at a time.
//
// Run returns the errors of Election.Run, and in addition one for which errors.Is finds
// recipes.ErrLost if the term was lost.
func Run(ctx context.Context, e *election.Election, callbacks leaderelection.LeaderCallbacks) error {
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

	var led atomic.Bool
	ended := make(chan error, 1) // gets the loss of the term, unless OnStartedLeading does not return
	err := e.Run(ctx, func(term context.Context, t *election.Term) error {
		led.Store(true)
		lead(term, callbacks)
		ended <- t.Err()
		cancel() // one term
		return context.Cause(term)
	})
	if !led.Load() {
		callbacks.OnStoppedLeading()
	}
	cancel()
	var lost error
	select {
	case lost = <-ended:
	default: // election.ErrOverrun, or no term
	}
	return errors.Join(err, lost, <-observed)
}

// lead calls the callbacks of one term, and returns when they have and the term has ended.
func lead(ctx context.Context, callbacks leaderelection.LeaderCallbacks) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		callbacks.OnStoppedLeading()
	}()
	callbacks.OnStartedLeading(ctx)
	<-ctx.Done()
	<-stopped
}

// observe calls f with the ID of each new leader until ctx is done.
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
		case last == nil || *last != leader.ID:
			last = &leader.ID
			f(leader.ID)
		}
	}
	return nil
}
