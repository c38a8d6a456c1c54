// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
)

// A Sharing answers callers that ask the same of the servers at the same time with
// one answer. Each gets one that was asked for after its own call began: those that
// come while a round is under way share the next.
//
// Without it a thousand waiters that have the same event to look into would each list
// the thousand. A is what a caller adds to its round, R what the round answers all
// of its callers with. The zero value is ready to use; it is safe for concurrent use.
type Sharing[A, R any] struct {
	mu   sync.Mutex              // guards next
	next map[string]*round[A, R] // by key: the round to come, nil if nobody has asked for one
}

// A round is one answer, for all who have asked before it began.
type round[A, R any] struct {
	asks     []A
	answered chan struct{} // closed once what follows is set
	answer   R
	err      error
}

// Ask returns run's answer for key, of a round that begins after the call; or ctx's
// error. run is called by one goroutine of the session at a time for each key.
func (sh *Sharing[A, R]) Ask(ctx context.Context, s *Session, key string, a A, run func(asks []A) (R, error)) (R, error) {
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

// run carries out round after round until nobody asks.
func (sh *Sharing[A, R]) run(key string, run func(asks []A) (R, error)) {
	for {
		sh.mu.Lock()
		r := sh.next[key]
		if r == nil {
			delete(sh.next, key)
			sh.mu.Unlock()
			return
		}
		sh.next[key] = nil // there, and empty: somebody runs
		sh.mu.Unlock()
		r.answer, r.err = run(r.asks)
		close(r.answered)
	}
}

// fail answers the round to come with err, when nothing can be run.
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
