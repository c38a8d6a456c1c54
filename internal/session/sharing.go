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
	answered chan struct{} // closed once what follows is set
	answer   R
	err      error
}

// Do returns run's answer for key, from a round that begins after the call, or ctx's error.
// For each key, one goroutine of the session at a time calls run.
func (sh *Sharing[A, R]) Do(ctx context.Context, s *Session, key string, a A, run func(asks []A) (R, error)) (R, error) {
	sh.mu.Lock()
	if sh.next == nil {
		sh.next = make(map[string]*round[A, R])
	}
	r, running := sh.next[key]
	if r == nil {
		r = &round[A, R]{answered: make(chan struct{})}
		sh.next[key] = r
	}
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
		var zero R
		return zero, ctx.Err()
	}
}

// run carries out round after round until no caller asks.
func (sh *Sharing[A, R]) run(key string, run func(asks []A) (R, error)) {
	for {
		sh.mu.Lock()
		r := sh.next[key]
		if r == nil {
			delete(sh.next, key)
			sh.mu.Unlock()
			return
		}
		sh.next[key] = nil // present but nil: a goroutine runs
		sh.mu.Unlock()
		r.answer, r.err = run(r.asks)
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
		r.err = err
		close(r.answered)
	}
}
