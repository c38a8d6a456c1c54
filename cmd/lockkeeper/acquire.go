// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A session is the grantor of the holds of a ZooKeeper session.
type session struct {
	*recipes.Client
	connection *connection
	stderr     io.Writer
}

func (s session) close() { s.Close() }

// A sessionHold is the claim of a lock or an election, and the way to release it.
type sessionHold struct {
	*recipes.Claim
	client *recipes.Client
	free   func(ctx context.Context) error
}

func (h sessionHold) release(ctx context.Context) error { return h.free(ctx) }

func (h sessionHold) grace(now time.Time) time.Duration {
	state := h.client.State()
	return graceOf(now, state.Proof, state.Timeout)
}

func (s session) acquire(ctx context.Context, a *runArguments) (hold, error) {
	ctx, cancel := a.bound(ctx)
	defer cancel()
	h, err := s.claim(ctx, a)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, errNoServer), errors.Is(err, context.DeadlineExceeded) && s.Ready() != nil:
		return nil, &statusError{statusUnavailable, err}
	case errors.Is(err, lock.ErrLocked), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil, &statusError{statusFailed, a.notGranted(err)}
	case errors.Is(err, zk.ErrNoAuth) && s.connection.authFile == "":
		return nil, internal(fmt.Errorf("%w: --auth-file presents a credential", err))
	}
	return nil, err
}

func (s session) claim(ctx context.Context, a *runArguments) (hold, error) {
	if a.elect != "" {
		e, err := election.New(s.Client, a.elect, nil)
		if err != nil {
			return nil, usageErrorf("%w", err)
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, internal(err)
		}
		return sessionHold{term.Claim, s.Client, s.resignTo(term, a.successor)}, nil
	}
	mu, err := lock.New(s.Client, a.lock, nil)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	take := mu.Lock
	if a.try {
		var cancel context.CancelFunc
		ctx, cancel = s.connection.bound(ctx)
		defer cancel()
		take = mu.TryLock
	}
	held, err := take(ctx)
	if err != nil {
		return nil, internal(err)
	}
	return sessionHold{held.Claim, s.Client, held.Unlock}, nil
}

// resignTo returns the release of a term, which hands it over if a successor is named. A hand-over that fails is reported, and does
// not keep the term from ending.
func (s session) resignTo(term *election.Term, successor string) func(context.Context) error {
	if successor == "" {
		return term.Resign
	}
	return func(ctx context.Context) error {
		bounded, cancel := s.connection.bound(ctx)
		defer cancel()
		if _, err := term.HandOver(bounded, successor); err != nil && !errors.Is(err, recipes.ErrLost) {
			logError(s.stderr, "run: %v: the next candidate leads", err)
		}
		return term.Resign(ctx)
	}
}

// internal gives an error the status of those that no other status describes. An outer
// status takes precedence.
func internal(err error) error { return &statusError{statusInternal, err} }
