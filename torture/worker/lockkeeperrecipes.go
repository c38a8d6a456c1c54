// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
)

func (c *lockkeeperClient) acquireReadWrite(ctx context.Context, how, path string) (Hold, error) {
	m, err := lock.NewRW(c.client, path, &lock.Options{Owner: c.name})
	if err != nil {
		return nil, err
	}
	if how == read {
		hold, err := m.RLock(ctx)
		if err != nil {
			return nil, err
		}
		return lockkeeperHold{hold.Claim, c.client, hold.Unlock}, nil
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

func (c *lockkeeperClient) acquirePermits(ctx context.Context, how, path string) (Hold, error) {
	s, err := lock.NewSemaphore(c.client, path, PermitLimit, &lock.Options{Owner: c.name})
	if err != nil {
		return nil, err
	}
	var hold *lock.Hold
	if how == tryAcquire {
		hold, err = s.TryAcquire(ctx, 1)
	} else {
		var weight int
		if weight, err = strconv.Atoi(strings.TrimPrefix(how, acquire)); err != nil {
			return nil, fmt.Errorf("operation %q: %w", how, err)
		}
		hold, err = s.Acquire(ctx, weight)
	}
	if err != nil {
		return nil, err
	}
	return lockkeeperHold{hold.Claim, c.client, hold.Unlock}, nil
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
