// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
)

// A Sharing answers callers that need the same result at the same time with one request.
// Each caller gets the answer of a request that was sent after its own call began: callers that
// arrive during a round share the next one.
//
// Without it, each of a thousand waiters that see the same event would list the thousand. A is
// what a caller adds to its round, R the answer of the round to all of its callers. The zero
// value is ready to use; it is safe for concurrent use.
type Sharing[A, R any] struct {
	mu   sync.Mutex              // guards next
	next map[string]*round[A, R] // by key: the next round, nil if no caller has asked for one
}

// A round is one answer, for all callers that asked before it began.
type round[A, R any] struct {
	asks     []A
	callers  int             // that wait for the answer; guarded by Sharing.mu
	begun    bool            // it is no longer the next round; likewise
	asked    context.Context // done once no caller waits for the answer, or the session is over
	cancel   context.CancelFunc
	answered chan struct{} // closed once what follows is set
	answer   R
	err      error
}

// Do returns run's answer for key, from a round that begins after the call, or ctx's error.
// For each key, one goroutine of the session at a time calls run. asked is done once no caller waits for that answer, or the session
// is over.
func (sh *Sharing[A, R]) Do(
	ctx context.Context, s *Session, key string, a A, run func(asked context.Context, asks []A) (R, error),
) (R, error) {
	sh.mu.Lock()
	if sh.next == nil {
		sh.next = make(map[string]*round[A, R])
	}
	r, running := sh.next[key]
	if r == nil {
		r = &round[A, R]{answered: make(chan struct{})}
		r.asked, r.cancel = context.WithCancel(s.ctx)
		sh.next[key] = r
	}
	r.callers++
	r.asks = append(r.asks, a)
	sh.mu.Unlock()
	if !running {
		if err := s.spawn(func() { sh.run(key, run) }); err != nil {
			sh.fail(key, err)
		}
	}
	select {
	case <-r.answered:
		return r.answer, r.err
	case <-ctx.Done():
		sh.leave(r)
		var zero R
		return zero, ctx.Err()
	}
}

// leave records that a caller no longer waits for the answer. Others may still come to a round that has not begun.
func (sh *Sharing[A, R]) leave(r *round[A, R]) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r.callers--; r.callers == 0 && r.begun {
		r.cancel()
	}
}

// run carries out round after round until no caller asks.
func (sh *Sharing[A, R]) run(key string, run func(asked context.Context, asks []A) (R, error)) {
	for {
		sh.mu.Lock()
		r := sh.next[key]
		if r == nil {
			delete(sh.next, key)
			sh.mu.Unlock()
			return
		}
		sh.next[key] = nil // present but nil: a goroutine runs
		r.begun = true
		if r.callers == 0 {
			r.cancel()
		}
		sh.mu.Unlock()
		r.answer, r.err = run(r.asked, r.asks)
		r.cancel()
		close(r.answered)
	}
}

// fail answers the next round with err, if it cannot be run.
func (sh *Sharing[A, R]) fail(key string, err error) {
	sh.mu.Lock()
	r := sh.next[key]
	delete(sh.next, key)
	sh.mu.Unlock()
	if r != nil {
		r.cancel()
		r.err = err
		close(r.answered)
	}
}
