// SPDX-License-Identifier: Apache-2.0

// Package faketime runs tests in fake time.
package faketime

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble of testing/synctest, and on one processor: with Go 1.26 the race detector crashes (in tsan's SlotLock,
// or over an epoch) when two processors receive from two due timers of one bubble at the same time, because the bubble lends
// both the same context. A test that has not ended after Limit of fake time ends the process: see Bound.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	one.begin()
	defer one.end()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		t.Cleanup(Bound(t.Name())) // after all other cleanups
		f(t)
	})
}

// one is the setting of one processor, for tests in parallel.
var one setting

type setting struct {
	mu     sync.Mutex // guards what follows
	tests  int        // that need it
	before int        // what the number of processors was
}

func (s *setting) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tests++; s.tests == 1 {
		s.before = runtime.GOMAXPROCS(1)
	}
}

func (s *setting) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tests--; s.tests == 0 {
		runtime.GOMAXPROCS(s.before)
	}
}
