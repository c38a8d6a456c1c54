// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A locking is a call of Lock in its own goroutine.
type locking struct {
	env   *env
	ended chan struct{} // closed when Lock has returned
	hold  *lock.Hold    // valid after ended, like err and at
	err   error
	at    time.Time // immediately after the return
}

// locking begins a call of Lock. The test ends only after the call has returned.
func (s *env) locking(ctx context.Context, mu *lock.Mutex) *locking {
	l := &locking{env: s, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.hold, l.err = mu.Lock(ctx)
		l.at = time.Now()
	}()
	s.t.Cleanup(func() { <-l.ended })
	return l
}

// result waits until Lock has returned, and returns its results.
func (l *locking) result() (*lock.Hold, error) {
	l.env.t.Helper()
	await(l.env, l.ended)
	return l.hold, l.err
}

// granted waits until the lock is held.
func (l *locking) granted() *lock.Hold {
	l.env.t.Helper()
	hold, err := l.result()
	require.NoError(l.env.t, err)
	return hold
}

// over reports whether Lock has returned.
func (l *locking) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}
