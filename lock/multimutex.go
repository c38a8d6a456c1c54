// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/internal/together"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A MultiMutex takes several locks, for writing or for reading, all or none of them. It is safe for concurrent use, and keeps no
// state of an acquisition: that is in its MultiHold.
type MultiMutex struct {
	mutexes []*Mutex // in the order of their paths
}

// All returns the MultiMutex of locks of one client. It sends no request. It is an error to pass no
// lock, one path twice, locks of different clients, or a lock with Options.LockDelay or Options.Fence:
// the delays of several locks would add up while the others are held.
//
// A read/write lock is taken for reading if its RWMutex.RLocker is passed, and for writing with RWMutex.Locker. To pass both is to
// pass one path twice.
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
// are Mutex.Lock's; a *HeldError names the lock that it waited for last.
//
// A re-entrant lock that is held under ctx joins that hold. Taking more locks under a hold is the
// caller's own order: two callers that do so in different orders can wait for each other.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiHold, error) { return m.acquire(ctx, false) }

// TryLock takes all locks if each of them is free and has no waiters, as Mutex.TryLock or RWMutex.TryRLock does. Otherwise nothing is
// held, and its error is a *HeldError, which names the first lock that is not free and its holder: see Mutex.TryLock for one that is
// not known. It waits for no other contender, only for answers.
//
// One transaction takes the locks, or creates nothing. Where that is not possible, because there are more than 64 locks, their paths and
// owners do not fit a packet, or the client may not write the data of a lock's node, TryLock takes one after the other, and gives back
// those that it has at the first that is not free.
func (m *MultiMutex) TryLock(ctx context.Context) (*MultiHold, error) { return m.acquire(ctx, true) }

// acquire is TryLock if try is set, and otherwise Lock.
func (m *MultiMutex) acquire(ctx context.Context, try bool) (*MultiHold, error) {
	if ctx == nil {
		_, err := m.mutexes[0].Lock(ctx)
		return nil, err
	}
	for {
		holds, err := m.lockOnce(ctx, try)
		if err == nil {
			return newMultiHold(m.mutexes, holds), nil
		}
		lost := lostOf(holds)
		abandonAll(holds)
		switch {
		case lost == nil, errors.As(err, new(*HeldError)) && try, ctx.Err() != nil && !errors.Is(err, recipes.ErrLost):
			return nil, err
		case ctx.Err() != nil: // while the locks were given back
			return nil, &recipes.Error{Op: "lock all", Path: m.mutexes[0].Path(), Err: ctxerr.Ended(ctx)}
		case errors.Is(lost, recipes.ErrClosed), errors.Is(lost, recipes.ErrRevoked):
			return nil, fmt.Errorf("lock all: %w", lost)
		}
	}
}

// lockOnce takes the locks that it can. Also with an error, it returns the holds that it has, by lock.
func (m *MultiMutex) lockOnce(ctx context.Context, try bool) ([]*Hold, error) {
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
	if len(free) > 1 {
		err := m.lockTogether(ctx, holds, free, try)
		switch busy := (*recipes.BusyError)(nil); {
		case err == nil:
			return holds, lostOf(holds)
		case try && errors.As(err, &busy):
			return holds, &HeldError{Path: busy.Path, Holder: busy.Front}
		}
		// Locking one after another meets the cause again, and names its lock.
	}
	return holds, m.lockInOrder(ctx, holds, free, try)
}

// lockTogether takes the free locks in one transaction. After an error none of
// them is held or queued for: a node that stayed in a queue while the call waits in another one,
// out of their order, could be part of a circle.
func (m *MultiMutex) lockTogether(ctx context.Context, holds []*Hold, free []int, try bool) error {
	parts := make([]together.Part, len(free))
	for i, index := range free {
		parts[i] = together.Part{Queue: m.mutexes[index].queue, Mode: m.mutexes[index].mode}
	}
	take := together.Claim
	if try {
		take = together.Try
	}
	claims, err := take(ctx, parts...)
	if err != nil {
		return err
	}
	for i, index := range free {
		holds[index] = m.mutexes[index].newHold(claims[i])
	}
	return nil
}

// lockInOrder takes the free locks one after another, as long as those before are held.
func (m *MultiMutex) lockInOrder(ctx context.Context, holds []*Hold, free []int, try bool) error {
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
		take := m.mutexes[index].Lock
		if try {
			take = m.mutexes[index].TryLock
		}
		hold, err := take(waiting)
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
