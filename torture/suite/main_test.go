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
	atOnce(10)
	tclog.SetDefault(tclog.NewNoopLogger()) // it greets the engine with ten lines
	goleak.VerifyTestMain(withShared{m})
}

// atOnce says how many parallel tests run at the same time, unless the command
// line does. It is more than there are processors: they wait for sessions to
// expire most of the time.
func atOnce(n int) {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil {
		panic(err)
	}
}

// withShared closes the shared ensembles after the last test, before goroutines
// are counted.
type withShared struct{ *testing.M }

func (m withShared) Run() int {
	status := m.M.Run()
	met, err := budgets.write(os.Stdout)
	if err != nil || *strict && !met {
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

// Ensembles for the tests that do not break servers. Each such test keeps to a
// path of its own.
var (
	one   = &shared{servers: 1}
	three = &shared{servers: 3}
)

// shared is an ensemble that starts with the first test that wants it.
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

// close is called when no test runs any more.
func (s *shared) close() {
	for _, f := range s.cleanups {
		f()
	}
}

// lasting is a test whose cleanup waits until all tests have ended.
type lasting struct {
	testing.TB
	shared *shared
}

// Cleanup is called by get, which holds mu.
func (l lasting) Cleanup(f func()) { l.shared.cleanups = append(l.shared.cleanups, f) }

// Logf is not the test's, which may have ended.
func (l lasting) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf is what a cleanup calls, when the test has long ended.
func (l lasting) Errorf(format string, args ...any) {
	l.Logf(format, args...)
	l.shared.failed = true
}
