// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A Locking is a call of Lock in its own goroutine.
type Locking struct {
	env   *Env
	Ended chan struct{} // closed when Lock has returned
	Hold  *lock.Hold    // valid after Ended, like Err and At
	Err   error
	At    time.Time // immediately after the return
}

// Locking begins a call of Lock. The test ends only after the call has returned.
func (s *Env) Locking(ctx context.Context, mu *lock.Mutex) *Locking {
	l := &Locking{env: s, Ended: make(chan struct{})}
	go func() {
		defer close(l.Ended)
		l.Hold, l.Err = mu.Lock(ctx)
		l.At = time.Now()
	}()
	s.T.Cleanup(func() { <-l.Ended })
	return l
}

// Result waits until Lock has returned, and returns its results.
func (l *Locking) Result() (*lock.Hold, error) {
	l.env.T.Helper()
	Await(l.env, l.Ended)
	return l.Hold, l.Err
}

// Granted waits until the lock is held.
func (l *Locking) Granted() *lock.Hold {
	l.env.T.Helper()
	hold, err := l.Result()
	require.NoError(l.env.T, err)
	return hold
}

// Over reports whether Lock has returned.
func (l *Locking) Over() bool {
	select {
	case <-l.Ended:
		return true
	default:
		return false
	}
}
