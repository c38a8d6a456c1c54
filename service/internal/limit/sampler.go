// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"sync"

	"golang.org/x/time/rate"
)

// What one principal may have of one kind: enough for an operator who tries, and far less than what fills a disk.
const (
	sampleRate  = 1 // a second
	sampleBurst = 100
)

// A Sampler chooses, of events that have a principal and a kind each, those to show. Both must be few: it forgets none. It is
// safe for concurrent use.
type Sampler struct {
	mu      sync.Mutex
	samples map[event]*sample // guarded by mu
}

type event struct{ principal, kind string }

type sample struct {
	shown   *rate.Limiter
	skipped int // since the last event that was shown
}

// NewSampler returns a Sampler that has seen no event.
func NewSampler() *Sampler { return &Sampler{samples: make(map[event]*sample)} }

// Skip counts one event, and reports whether to skip it. For one to show, skipped is the number of those like it that were
// skipped before.
func (s *Sampler) Skip(principal, kind string) (skipped int, skip bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := event{principal, kind}
	found := s.samples[of]
	if found == nil {
		found = &sample{shown: rate.NewLimiter(sampleRate, sampleBurst)}
		s.samples[of] = found
	}
	if !found.shown.Allow() {
		found.skipped++
		return 0, true
	}
	skipped, found.skipped = found.skipped, 0
	return skipped, false
}
