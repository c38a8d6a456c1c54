// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// inflict does what the plan says, and returns when all of it was taken back, or ctx has ended.
func (s *stage) inflict(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range s.opts.Plan {
		if s.until(ctx, f.At) != nil {
			break
		}
		running.Go(func() { s.fault(ctx, f) })
	}
	running.Wait()
}

// faultBound is how long it may take to break something, or to take that back.
const faultBound = 30 * time.Second

func (s *stage) fault(ctx context.Context, f Fault) {
	note := func(format string, args ...any) {
		s.journal.add(history.Event{At: s.time.now(), Kind: history.Fault, Text: fmt.Sprintf(format, args...)})
	}
	// The bound is no part of ctx: what is begun is seen through, so that nothing is broken when the run ends.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), faultBound)
	defer cancel()
	note("%v", f)
	back, err := s.inject(ctx, bound, f)
	s.count(f.Kind, err)
	if err != nil {
		note("%v was not done: %v", f, err)
		return
	}
	timer := time.NewTimer(f.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	bound, cancel = context.WithTimeout(context.WithoutCancel(ctx), faultBound)
	defer cancel()
	if err := back(bound); err != nil {
		s.amiss("taking back %v: %v", f, err)
	}
	note("over: %v", f)
}

// inject tries for as long as the fault was to last: what it needs, a leader or a contender in line, may be missing for a
// moment, and another fault may be on what it is to hit.
func (s *stage) inject(ctx, bound context.Context, f Fault) (heal, error) {
	for giveUp := s.time.now() + history.Instant(f.For); ; {
		back, err := kinds[f.Kind].inject(bound, s, f.Args, f.For)
		if err == nil || s.time.now() > giveUp {
			return back, err
		}
		if s.until(ctx, time.Duration(s.time.now())+100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

func (s *stage) count(kind string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.result.Faults[kind]
	if err == nil {
		n.Injected++
	} else {
		n.Missed++
		s.opts.Log("%s was not done: %v", kind, err)
	}
	s.result.Faults[kind] = n
}
