// SPDX-License-Identifier: Apache-2.0

// Package suite tests the recipes against real ZooKeeper servers, with faults.
package suite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
)

func TestMain(m *testing.M) {
	child.Main()
	flag.Parse()
	setParallel(8)
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines about the engine
	goleak.VerifyTestMain(withShared{m})
}

// setParallel sets how many parallel tests run at the same time, unless the command line does. They are more than the
// processors, because the tests mostly wait for sessions to expire, or for an ensemble that another test breaks.
func setParallel(n int) {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil {
		panic(err)
	}
}

// withShared closes the shared ensembles after the last test, before goleak checks for goroutines.
type withShared struct{ *testing.M }

func (m withShared) Run() int {
	stop := unscheduled.measure()
	status := m.M.Run()
	stop()
	if err := program.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	for _, s := range []*shared{one, three, &broken.shared, &slow.shared, &five.shared} {
		s.close()
		if s.failed && status == 0 {
			status = 1
		}
	}
	return status
}

// one and three are the ensembles for tests that do not break servers. Each such test uses its own path.
var (
	one   = &shared{opts: docker.Options{Servers: 1}}
	three = &shared{opts: docker.Options{Servers: 3}}
)

// broken, slow and five are the ensembles that tests break, one test after the other.
var (
	broken = &lent{shared: shared{opts: docker.Options{Servers: 3}}}
	// Its servers still follow, or lead, long after the sessions of an isolated one have expired.
	slow = &lent{shared: shared{opts: docker.Options{
		Servers: 3, Tick: time.Second, SyncLimit: 60,
		// A server disconnects a client that says nothing for T at the next multiple of this, by its own clock: practically never.
		Properties: map[string]string{"zookeeper.nio.sessionlessCnxnTimeout": "1000000000"},
	}}}
	five = &lent{shared: shared{opts: docker.Options{Servers: 5}}}
)

// A shared is an ensemble that the first test that needs it starts.
type shared struct {
	opts docker.Options

	mu       sync.Mutex // guards what follows
	ensemble *docker.Ensemble
	cleanups []func()
	failed   bool // closing it
}

func (s *shared) get(tb testing.TB) *docker.Ensemble {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ensemble == nil {
		s.ensemble = start(lasting{tb, s}, s.opts)
	}
	return s.ensemble
}

// close removes the ensemble. Call it when no test is running.
func (s *shared) close() {
	for _, f := range s.cleanups {
		f()
	}
	s.ensemble, s.cleanups = nil, nil
}

// A lent is an ensemble that one test at a time has to itself: to start one costs more than what most tests do with it.
type lent struct {
	shared
	turn sync.Mutex
}

// lend returns the ensemble when no other test has it, and all its servers serve. A test that fails may leave them as they are:
// the next test has new ones.
func (l *lent) lend(tb testing.TB) *docker.Ensemble {
	tb.Helper()
	l.turn.Lock()
	tb.Cleanup(func() {
		if tb.Failed() {
			l.close()
		}
		l.turn.Unlock()
	})
	e := l.get(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), recipetest.Patience)
	defer cancel()
	require.NoError(tb, e.WaitServing(ctx))
	return e
}

// A lasting is a testing.TB whose cleanups run after all tests have ended.
type lasting struct {
	testing.TB
	shared *shared
}

// Cleanup is called by get, which holds mu.
func (l lasting) Cleanup(f func()) { l.shared.cleanups = append(l.shared.cleanups, f) }

// Logf writes to standard error, because the test may have ended.
func (l lasting) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf makes the test binary fail. A cleanup calls it after the test has ended.
func (l lasting) Errorf(format string, args ...any) {
	l.Logf(format, args...)
	l.shared.failed = true
}
