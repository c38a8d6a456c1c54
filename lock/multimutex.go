// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A MultiMutex takes several locks, all or none of them. It is safe for concurrent use, and keeps no
// state of an acquisition: that is in its MultiHold.
type MultiMutex struct {
	mutexes []*Mutex // in the order of their paths
}

// All returns the MultiMutex of locks of one client. It sends no request. It is an error to pass no
// lock, one path twice, locks of different clients, or a lock with Options.LockDelay or Options.Fence:
// the delays of several locks would add up while the others are held.
//
// The locks are taken in the order of their paths, in whatever order they are passed. So calls for
// overlapping sets of locks never wait for each other in a circle.
func All(mutexes ...*Mutex) (*MultiMutex, error) {
	fail := func(path, cause string) (*MultiMutex, error) {
		return nil, &recipes.Error{Op: "lock all", Path: path, Err: errors.New(cause)}
	}
	if len(mutexes) == 0 {
		return fail("", "no locks")
	}
	for i, m := range mutexes {
		switch {
		case m == nil:
			return fail("", fmt.Sprintf("lock %d of %d is nil", i+1, len(mutexes)))
		case m.client != mutexes[0].client:
			return fail(m.Path(), "belongs to another client than "+mutexes[0].Path())
		case m.fenced:
			return fail(m.Path(), errFenced.Error())
		}
	}
	sorted := slices.SortedFunc(slices.Values(mutexes), func(a, b *Mutex) int { return cmp.Compare(a.Path(), b.Path()) })
	for i, m := range sorted[1:] {
		if m.Path() == sorted[i].Path() {
			return fail(m.Path(), "given twice")
		}
	}
	return &MultiMutex{mutexes: sorted}, nil
}

// Lock waits until it has all locks, and takes them. ctx bounds the whole wait, and not the holds.
//
// If all locks are free, one transaction takes them. Otherwise Lock takes one after the other, each
// as Mutex.Lock does, and keeps those that it has while it waits for the next. If one of them is
// lost meanwhile, it releases all and begins again, unless it was revoked or the client closed.
//
// After an error nothing is held. As with Mutex.Lock, Lock waits for the deletion of its nodes, all
// at the same time, for ReleaseTimeout at most, and not while no server can be reached. Its errors
// are those of Mutex.Lock; a *HeldError names the lock that it waited for last.
//
// A re-entrant lock that is held under ctx joins that hold. Taking more locks under a hold is the
// caller's own order: two callers that do so in different orders can wait for each other.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiHold, error) {
	if ctx == nil {
		_, err := m.mutexes[0].Lock(ctx)
		return nil, err
	}
	for {
		holds, err := m.lockOnce(ctx)
		if err == nil {
			return newMultiHold(m.mutexes, holds), nil
		}
		lost := lostOf(holds)
		abandonAll(holds)
		switch {
		case lost == nil, ctx.Err() != nil:
			return nil, err
		case errors.Is(lost, recipes.ErrClosed), errors.Is(lost, recipes.ErrRevoked):
			return nil, fmt.Errorf("lock all: %w", lost)
		}
	}
}

// lockOnce takes the locks that it can. Also with an error, it returns the holds that it has, by lock.
func (m *MultiMutex) lockOnce(ctx context.Context) ([]*Hold, error) {
	holds := make([]*Hold, len(m.mutexes))
	var free []int // indexes of the locks that are not held under ctx
	for i, mu := range m.mutexes {
		outer := mu.outer(ctx)
		if outer == nil {
			free = append(free, i)
			continue
		}
		hold, err := outer.join(ctx)
		if err != nil {
			return holds, err
		}
		holds[i] = hold
	}
	if len(free) > 1 && m.lockTogether(ctx, holds, free) {
		return holds, lostOf(holds)
	}
	return holds, m.lockInOrder(ctx, holds, free)
}

// lockTogether takes the free locks in one transaction, and reports whether it did. Otherwise none of
// them is held or queued for: a node that stayed in a queue while the call waits in another one,
// out of their order, could be part of a circle.
func (m *MultiMutex) lockTogether(ctx context.Context, holds []*Hold, free []int) bool {
	queues := make([]*recipes.Queue, len(free))
	for i, index := range free {
		queues[i] = m.mutexes[index].queue
	}
	claims, err := recipes.ClaimTogether(ctx, queues...)
	if err != nil {
		return false // locking one after another meets the cause again, and names its lock
	}
	for i, index := range free {
		holds[index] = m.mutexes[index].newHold(claims[i])
	}
	return true
}

// lockInOrder takes the free locks one after another, as long as those before are held.
func (m *MultiMutex) lockInOrder(ctx context.Context, holds []*Hold, free []int) error {
	waiting := ctx
	watch := func(hold *Hold) context.CancelFunc {
		var cancel context.CancelFunc
		waiting, cancel = hold.Claim.Context(waiting)
		return cancel
	}
	for _, hold := range holds {
		if hold != nil {
			defer watch(hold)()
		}
	}
	for _, index := range free {
		hold, err := m.mutexes[index].Lock(waiting)
		if err != nil {
			return err
		}
		holds[index] = hold
		defer watch(hold)()
	}
	return lostOf(holds)
}

// Do takes all locks, runs f, and releases them: see Mutex.Do. The context that f gets is done when
// ctx is done or the first lock is lost.
func (m *MultiMutex) Do(ctx context.Context, f func(ctx context.Context, hold *MultiHold) error) (err error) {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	work, cancel := hold.Context(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, hold.Unlock(ctx))
	}()
	return f(work, hold)
}
