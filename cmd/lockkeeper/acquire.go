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
	"github.com/lockkeeper/lockkeeper/fencing"
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

func (h sessionHold) tokens() []fencing.Token { return []fencing.Token{h.Token()} }

func (h sessionHold) release(ctx context.Context) error { return h.free(ctx) }

func (h sessionHold) grace(now time.Time) time.Duration { return graceIn(h.client, now) }

// A multiHold is the hold of several locks.
type multiHold struct {
	*lock.MultiHold
	mutexes []*lock.Mutex // in the order of the flags
	client  *recipes.Client
}

func (h multiHold) tokens() []fencing.Token {
	tokens := make([]fencing.Token, len(h.mutexes))
	for i, m := range h.mutexes {
		tokens[i] = h.Claim(m).Token()
	}
	return tokens
}

func (h multiHold) release(ctx context.Context) error { return h.Unlock(ctx) }

func (h multiHold) grace(now time.Time) time.Duration { return graceIn(h.client, now) }

// graceIn returns how long a command may take to stop after the session's hold was lost at now.
func graceIn(client *recipes.Client, now time.Time) time.Duration {
	state := client.State()
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
	if a.try {
		bound := s.connection.connectTimeout + a.lockDelay // which TryLock waits for, too
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, bound, &overdue{errNoServer, bound})
		defer cancel()
	}
	if a.permits != "" {
		return s.acquirePermits(ctx, a)
	}
	if a.numbered {
		return s.acquireSlot(ctx, a)
	}
	mutexes := make([]*lock.Mutex, len(a.locks))
	for i, path := range a.locks {
		var err error
		if mutexes[i], err = s.mutex(path, a); err != nil {
			return nil, usageErrorf("%w", err)
		}
	}
	if len(mutexes) > 1 {
		return s.lockAll(ctx, a, mutexes)
	}
	take := mutexes[0].Lock
	if a.try {
		take = mutexes[0].TryLock
	}
	return s.hold(take(ctx))
}

// mutex returns the lock at path, for reading if the arguments say so.
func (s session) mutex(path string, a *runArguments) (*lock.Mutex, error) {
	if !a.shared {
		return lock.New(s.Client, path, &lock.Options{LockDelay: a.lockDelay})
	}
	rw, err := lock.NewRW(s.Client, path, nil)
	if err != nil {
		return nil, err
	}
	return rw.RLocker(), nil
}

func (s session) acquirePermits(ctx context.Context, a *runArguments) (hold, error) {
	semaphore, err := lock.NewSemaphore(s.Client, a.locks[0], a.limit, nil)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	take := semaphore.Acquire
	if a.try {
		take = semaphore.TryAcquire
	}
	permits, err := take(ctx, a.weight)
	if err != nil {
		return nil, internal(err)
	}
	return sessionHold{permits.Claim, s.Client, permits.Release}, nil
}

// A slotHold is the hold of a slot.
type slotHold struct {
	sessionHold
	number int
}

func (s session) acquireSlot(ctx context.Context, a *runArguments) (hold, error) {
	slots, err := lock.NewSlots(s.Client, a.locks[0], a.slots, nil)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	take := slots.Acquire
	if a.try {
		take = slots.TryAcquire
	}
	slot, err := take(ctx)
	if err != nil {
		return nil, internal(err)
	}
	return slotHold{sessionHold{slot.Claim, s.Client, slot.Unlock}, slot.Number()}, nil
}

func (s session) lockAll(ctx context.Context, a *runArguments, mutexes []*lock.Mutex) (hold, error) {
	all, err := lock.All(mutexes...)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	take := all.Lock
	if a.try {
		take = all.TryLock
	}
	held, err := take(ctx)
	if err != nil {
		return nil, internal(err)
	}
	return multiHold{held, mutexes, s.Client}, nil
}

func (s session) hold(held *lock.Hold, err error) (hold, error) {
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
