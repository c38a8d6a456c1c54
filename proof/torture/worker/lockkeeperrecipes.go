// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"strconv"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func init() {
	kinds[read] = kind{acquire: (*lockkeeperClient).read, shares: true}
	kinds[write] = kind{acquire: (*lockkeeperClient).write}
	kinds[downgrade] = kind{acquire: (*lockkeeperClient).write, then: (*workloadClient).downgrade}
	kinds[tryAcquire] = kind{acquire: permits((*lock.Semaphore).TryAcquire, 1), shares: true}
	for weight := range PermitLimit {
		kinds[acquire+strconv.Itoa(weight+1)] = kind{acquire: permits((*lock.Semaphore).Acquire, weight+1), shares: true}
	}
}

func (c *lockkeeperClient) read(ctx context.Context, path string) (Hold, error) {
	m, err := lock.NewRW(c.client, path, &lock.RWOptions{Owner: c.name})
	if err != nil {
		return nil, err
	}
	return c.holdOf(m.RLock(ctx))
}

func (c *lockkeeperClient) write(ctx context.Context, path string) (Hold, error) {
	m, err := lock.NewRW(c.client, path, &lock.RWOptions{Owner: c.name})
	if err != nil {
		return nil, err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return writeHold{lockkeeperHold{hold.Claim, c.client, hold.Unlock}, hold}, nil
}

// writeHold is a hold that can be downgraded.
type writeHold struct {
	lockkeeperHold

	writer *lock.WriteHold
}

func (h writeHold) Downgrade(ctx context.Context) error { return h.writer.Downgrade(ctx) }

// permits returns a function that acquires permits.
func permits(
	take func(*lock.Semaphore, context.Context, int) (*lock.Permits, error), weight int,
) func(*lockkeeperClient, context.Context, string) (Hold, error) {
	return func(c *lockkeeperClient, ctx context.Context, path string) (Hold, error) {
		s, err := lock.NewSemaphore(c.client, path, PermitLimit, &lock.SemaphoreOptions{Owner: c.name})
		if err != nil {
			return nil, err
		}
		got, err := take(s, ctx, weight)
		if err != nil {
			return nil, err
		}
		return lockkeeperHold{got.Claim, c.client, got.Release}, nil
	}
}

// AcquireAll takes several locks together.
func (c *lockkeeperClient) AcquireAll(ctx context.Context, paths []string) ([]Hold, error) {
	mutexes := make([]*lock.Mutex, len(paths))
	for i, path := range paths {
		var err error
		if mutexes[i], err = lock.New(c.client, path, &lock.Options{Owner: c.name}); err != nil {
			return nil, err
		}
	}
	all, err := lock.All(mutexes...)
	if err != nil {
		return nil, err
	}
	got, err := all.Lock(ctx)
	if err != nil {
		return nil, err
	}
	holds := make([]Hold, len(paths))
	for i, m := range mutexes {
		holds[i] = multiHold{lockkeeperHold{got.Claim(m), c.client, got.Unlock}, got}
	}
	return holds, nil
}

// multiHold is one of several locks. It ends with the first of them, as the hold of all does.
type multiHold struct {
	lockkeeperHold

	all *lock.MultiHold
}

func (h multiHold) Done() <-chan struct{} { return h.all.Done() }
func (h multiHold) Cause() history.Cause  { return causeOf(h.all.Err()) }
