// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Holder returns the holder of the lock: the first contender in the queue, which may
// be about to learn that it holds the lock. If there is none, the error is
// ErrNoHolder. It costs two reads.
//
// The result is the view of the server that this client is connected to, which may
// lag behind. Use it for display, logs and hints: the holder may have changed when
// Holder returns.
func (m *Mutex) Holder(ctx context.Context) (recipes.Contender, error) {
	first, err := m.queue.First(ctx)
	if errors.Is(err, queue.ErrEmpty) {
		return recipes.Contender{}, &recipes.Error{Op: "holder", Path: m.queue.Path(), Err: ErrNoHolder}
	}
	if err != nil {
		return recipes.Contender{}, fmt.Errorf("holder: %w", err)
	}
	return first, nil
}

// Waiters returns the contenders behind the holder, in the order in which they get
// the lock, in the same view as Holder. It costs one read, and one more for each
// contender.
func (m *Mutex) Waiters(ctx context.Context) ([]recipes.Contender, error) {
	contenders, err := m.queue.Contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiters: %w", err)
	}
	if len(contenders) > 0 {
		contenders = contenders[1:]
	}
	return contenders, nil
}
