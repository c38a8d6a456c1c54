// SPDX-License-Identifier: Apache-2.0

// Package suite tests the recipes against real ZooKeeper servers, with faults.
package suite

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	tclog "github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

func TestMain(m *testing.M) {
	child.Main()
	flag.Parse()
	setParallel(6)
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines about the engine
	goleak.VerifyTestMain(withShared{m})
}

// setParallel sets how many parallel tests run at the same time, unless the command line does. They are more than the
// processors, because the tests mostly wait for sessions to expire.
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
	for _, s := range []*shared{one, three} {
		s.close()
		if s.failed && status == 0 {
			status = 1
		}
	}
	return status
}

// one and three are the ensembles for tests that do not break servers. Each such test uses its own path.
var (
	one   = &shared{servers: 1}
	three = &shared{servers: 3}
)

// A shared is an ensemble that the first test that needs it starts.
type shared struct {
	servers int

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
		s.ensemble = start(lasting{tb, s}, docker.Options{Servers: s.servers})
	}
	return s.ensemble
}

// close removes the ensemble. Call it when no test is running.
func (s *shared) close() {
	for _, f := range s.cleanups {
		f()
	}
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
