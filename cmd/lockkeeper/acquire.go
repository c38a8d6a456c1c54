// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A hold is the claim of a lock or an election, and the way to release it.
type hold struct {
	*recipes.Claim
	release func(ctx context.Context) error
}

// errWait is the cause of a wait that ends with --wait.
var errWait = errors.New("the wait is over")

// acquire takes the lock or becomes the leader. Its error has the exit status.
func (a *runArguments) acquire(ctx context.Context, client *recipes.Client) (hold, error) {
	if a.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.wait, fmt.Errorf("%w (%v)", errWait, a.wait))
		defer cancel()
	}
	h, err := a.claim(ctx, client)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, errNoServer), errors.Is(err, context.DeadlineExceeded) && client.Ready() != nil:
		return hold{}, &statusError{statusUnavailable, err}
	case errors.Is(err, lock.ErrLocked), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return hold{}, &statusError{statusFailed, err}
	}
	return hold{}, err
}

func (a *runArguments) claim(ctx context.Context, client *recipes.Client) (hold, error) {
	if a.elect != "" {
		e, err := election.New(client, a.elect, nil)
		if err != nil {
			return hold{}, usageErrorf("%w", err)
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return hold{}, internal(err)
		}
		return hold{term.Claim, term.Resign}, nil
	}
	mu, err := lock.New(client, a.lock, nil)
	if err != nil {
		return hold{}, usageErrorf("%w", err)
	}
	take := mu.Lock
	if a.try {
		var cancel context.CancelFunc
		ctx, cancel = a.connection.bound(ctx)
		defer cancel()
		take = mu.TryLock
	}
	held, err := take(ctx)
	if err != nil {
		return hold{}, internal(err)
	}
	return hold{held.Claim, held.Unlock}, nil
}

// internal gives an error the status of those that no other status describes. An outer
// status takes precedence.
func internal(err error) error { return &statusError{statusInternal, err} }
