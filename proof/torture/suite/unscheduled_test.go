// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// Tests that compute can run beside this package, and machines of CI are loaded. A process that does not run is notified when it runs again,
// and servers that do not run cost a session what is left of its timeout. So the tests excuse what was not scheduled, as the
// torture does.

// shortestGap is the shortest time that counts as not scheduled, as for a worker with the sessions of these tests.
var shortestGap = worker.Gap(4 * time.Second)

// unscheduled has the gaps in the schedule of this process.
var unscheduled gaps

// gaps are intervals in which something did not run.
type gaps struct {
	mu  sync.Mutex // guards all
	all []gap
}

type gap struct{ from, until time.Time }

func (g *gaps) add(from, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, gap{from, until})
}

// within returns how much of the time between from and until the gaps take.
func (g *gaps) within(from, until time.Time) (sum time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gap := range g.all {
		begin, end := gap.from, gap.until
		if begin.Before(from) {
			begin = from
		}
		if end.After(until) {
			end = until
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

// measure records the gaps of this process until the result is called.
func (g *gaps) measure() (stop func()) {
	began, scale, done := time.Now(), clock.Start(), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		scale.Gaps(shortestGap, done, func(from, until time.Duration) {
			g.add(began.Add(from), began.Add(until))
		})
	})
	return func() {
		close(done)
		running.Wait()
	}
}

// reacted returns when this process would have acted, instead of at a time, had it run during the second before.
func reacted(at time.Time) time.Time { return at.Add(-unscheduled.within(at.Add(-time.Second), at)) }

// stalls records when the server at an address, or this process, did not answer requests, until the result is called. The result
// returns the longest gap.
func (s *env) stalls(addr string) (stop func() time.Duration) {
	s.T.Helper()
	conn := s.Bare(addr)
	ctx, cancel := context.WithCancel(s.Ctx)
	longest := time.Duration(0)
	var running sync.WaitGroup
	running.Go(func() { longest = longestStall(ctx, conn, s.Root) })
	stop = sync.OnceValue(func() time.Duration {
		cancel()
		running.Wait()
		conn.Close()
		return longest
	})
	s.T.Cleanup(func() { stop() })
	return stop
}

// longestStall sends one request after the other, each of which goes to the leader, and returns the longest time between two
// answers, or until ctx ends.
func longestStall(ctx context.Context, conn *zk.Conn, path string) (longest time.Duration) {
	pause := time.NewTicker(clock.Period)
	defer pause.Stop()
	for last := time.Now(); ; {
		_, err := conn.Sync(path)
		now := time.Now()
		longest = max(longest, now.Sub(last))
		if err == nil {
			last = now
		}
		select {
		case <-ctx.Done():
			return longest
		case <-pause.C:
		}
	}
}

func TestGapsAreCountedWhereTheyOverlapAnInterval(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	var g gaps
	require.Zero(t, g.within(at(0), at(10)))
	g.add(at(1), at(3))
	g.add(at(8), at(20))
	require.Equal(t, 4*time.Second, g.within(at(0), at(10)))
	require.Equal(t, time.Second, g.within(at(2), at(8)))
	require.Zero(t, g.within(at(3), at(8)))
}
