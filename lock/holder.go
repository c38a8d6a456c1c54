// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	if errors.Is(err, recipes.ErrEmpty) {
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

// A lookup reads the holder shortly before the deadline of a Lock's context, so that
// the error of a Lock that times out can name the holder without a request after the
// deadline.
//
// Most calls of Lock end long before, so a lookup that never runs must cost next to
// nothing: it creates its own context when it runs.
type lookup struct {
	timer   *time.Timer
	running sync.WaitGroup // counts what the timer starts, until it has ended

	mu     sync.Mutex         // guards what follows
	over   bool               // the result is no longer needed
	cancel context.CancelFunc // ends the read in progress

	holder recipes.Contender // set before running is done, as is found
	found  bool
}

// maxLookupLead bounds how long before the deadline the holder is read.
const maxLookupLead = time.Second

// lookUp schedules the lookup. It returns nil if ctx has no deadline.
func (m *Mutex) lookUp(ctx context.Context) *lookup {
	if ctx == nil {
		return nil
	}
	deadline, ok := ctx.Deadline()
	left := time.Until(deadline)
	if !ok || left <= 0 {
		return nil
	}
	l := &lookup{}
	l.running.Add(1)
	l.timer = time.AfterFunc(left-min(left/4, maxLookupLead), func() {
		defer l.running.Done()
		l.run(ctx, m)
	})
	return l
}

// run reads the holder, unless the lookup was abandoned.
func (l *lookup) run(ctx context.Context, m *Mutex) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	cancel := l.cancel
	l.mu.Unlock()
	defer cancel()
	l.holder, l.found = m.sharedHolder(ctx)
}

// end abandons the lookup unless it has its result. It returns after the lookup's
// goroutine has returned.
func (l *lookup) end() (holder recipes.Contender, found bool) {
	if l == nil || l.timer.Stop() {
		return recipes.Contender{}, false
	}
	l.mu.Lock()
	l.over = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	l.running.Wait()
	return l.holder, l.found
}

// A read of the holder that the lookups of one Mutex share: thousands of waiters may
// have the same deadline, and each read lists the queue.
type sharedRead struct {
	done   chan struct{} // closed when holder and err are set
	holder recipes.Contender
	err    error
}

// sharedHolder returns the holder, from a read in progress or from its own read. found
// is false if ctx ended first or the read failed: the holder is only a detail of an
// error that has another cause.
func (m *Mutex) sharedHolder(ctx context.Context) (holder recipes.Contender, found bool) {
	for ctx.Err() == nil {
		m.mu.Lock()
		r := m.reading
		first := r == nil
		if first {
			r = &sharedRead{done: make(chan struct{})}
			m.reading = r
		}
		m.mu.Unlock()
		if first {
			r.holder, r.err = m.queue.First(ctx)
			m.mu.Lock()
			m.reading = nil
			m.mu.Unlock()
			close(r.done)
			return r.holder, r.err == nil
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return recipes.Contender{}, false
		}
		if r.err == nil {
			return r.holder, true
		}
		// The read may have ended with the context of the lookup that made it: try again.
	}
	return recipes.Contender{}, false
}
