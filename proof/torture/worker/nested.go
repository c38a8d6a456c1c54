// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func init() { kinds[nested] = kind{acquire: (*lockkeeperClient).acquireNested} }

// acquireNested takes a lock, and takes it again under the context of the hold. The outer hold is unlocked first: the node must
// stay until the last Unlock.
func (c *lockkeeperClient) acquireNested(ctx context.Context, path string) (Hold, error) {
	m, err := lock.New(c.client, path, &lock.Options{
		Owner: c.name, Reentrant: true, LockDelay: c.lockDelay(path), Fence: c.fenceOf(path),
	})
	if err != nil {
		return nil, err
	}
	outer, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	under, cancel := outer.Context(context.WithoutCancel(ctx))
	defer cancel()
	inner, err := m.Lock(under)
	if err != nil {
		return nil, errors.Join(err, outer.Unlock(ctx))
	}
	if inner.Token() != outer.Token() {
		return nil, fmt.Errorf("a nested lock has token %v under a hold with token %v", inner.Token(), outer.Token())
	}
	release := func(ctx context.Context) error {
		if err := outer.Unlock(ctx); err != nil {
			return errors.Join(err, inner.Unlock(ctx))
		}
		if err := inner.Err(); errors.Is(err, recipes.ErrReleased) {
			return fmt.Errorf("the first of two Unlocks has released the lock: %w", err)
		}
		return inner.Unlock(ctx)
	}
	return lockkeeperHold{inner.Claim, c.client, release}, nil
}
