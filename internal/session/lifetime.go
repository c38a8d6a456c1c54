// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// A lifetime ends once, with a cause, and what depends on the session ends with it: its grants, watches, goroutines and
// connections. It is safe for concurrent use.
type lifetime struct {
	*link
	Nodes   *nodes.Set // those that may exist in the session
	watches watches
	timeout func() time.Duration // T, as negotiated

	ctx      context.Context // done when the session is over, with the reason
	cancel   context.CancelCauseFunc
	reported chan struct{} // closed when End has reported the end of all grants
	calls    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	over      error      // why the session is over
	overSince time.Time  // when over was set
	waiting   int        // requests on their callers' goroutines
}

func newLifetime(timeout func() time.Duration) *lifetime {
	l := &lifetime{link: newLink(), Nodes: nodes.NewSet(), watches: newWatches(), timeout: timeout, reported: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Context returns a context that is done when the session is over and all grants have ended.
// Its cause is the reason.
func (l *lifetime) Context() context.Context { return l.ctx }

// Ended returns why the session is over, or nil. The session's context may be cancelled
// slightly later, once all grants have ended.
func (l *lifetime) Ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// endedSince returns when the session ended, zero if it has not.
func (l *lifetime) endedSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overSince
}

// Reported returns a channel that is closed once End has reported the end of all grants, slightly
// later than the session's context is cancelled.
func (l *lifetime) Reported() <-chan struct{} { return l.reported }

// End ends the session with that cause. It ends all grants before it does anything else. Only
// the first call has an effect.
func (l *lifetime) End(cause error) {
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return
	}
	l.over, l.overSince = cause, time.Now()
	grants := l.Nodes.End(cause, errors.Is(cause, ErrExpired), l.overSince.Add(l.timeout()/4))
	l.mu.Unlock()

	_, reports := nodes.EndAll(grants, cause)
	l.cancel(cause)
	l.watches.dropAll()
	for _, report := range reports {
		report()
	}
	close(l.reported)
	// The ensemble must still be notified that a session was closed or abandoned.
	if !errors.Is(cause, sentinel.ErrClosed) && !errors.Is(cause, ErrAbandoned) {
		l.disconnect()
	}
}

// Bell returns a channel with room for one element. The session sends to it after a watch on
// the node at path, or on one of its children, has fired, and when the session is over. So one
// channel stands for any number of watches. The caller calls stop when it no longer receives.
func (l *lifetime) Bell(path string) (bell <-chan struct{}, stop func()) { return l.watches.bell(path) }

// spawn runs f on a goroutine that the session waits for.
func (l *lifetime) spawn(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	l.calls.Go(f)
	return nil
}

// begin is spawn for a request on the caller's own goroutine, until finish is called.
func (l *lifetime) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	l.calls.Add(1)
	l.waiting++
	return nil
}

func (l *lifetime) finish() {
	l.mu.Lock()
	l.waiting--
	l.mu.Unlock()
	l.calls.Done()
}

// hasWaiting reports whether callers wait for their requests on their own goroutines.
func (l *lifetime) hasWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0
}
