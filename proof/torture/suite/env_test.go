// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
)

// An env is the environment of a test on servers of an ensemble, which it can partition and break.
type env struct {
	*recipetest.Env
	ensemble *docker.Ensemble

	mu      sync.Mutex // guards proxies
	proxies []*docker.Proxy
}

// onOne returns an env on the shared ensemble of one server.
func onOne(tb testing.TB) *env { tb.Helper(); return newEnv(tb, one.get(tb)) }

// onThree returns an env on the shared ensemble of three servers.
func onThree(tb testing.TB) *env { tb.Helper(); return newEnv(tb, three.get(tb)) }

// onLent returns an env on an ensemble that the test may break. When the test ends, all servers must run again.
func onLent(tb testing.TB, l *lent) *env { tb.Helper(); return newEnv(tb, l.lend(tb)) }

// starting serializes the starts of ensembles. Several at the same time would not be ready earlier.
var starting sync.Mutex

// start starts an ensemble that ends with the test.
func start(tb testing.TB, opts docker.Options) *docker.Ensemble {
	tb.Helper()
	starting.Lock()
	defer starting.Unlock()
	return docker.Start(tb, &opts)
}

func newEnv(tb testing.TB, e *docker.Ensemble) *env {
	tb.Helper()
	s := &env{ensemble: e}
	// The Env needs the servers for its checks, and closes clients while their proxies still serve.
	tb.Cleanup(func() {
		for _, p := range s.proxies {
			if err := p.Close(); err != nil {
				tb.Errorf("close a proxy: %v", err)
			}
		}
	})
	s.Env = recipetest.New(tb, e.Addrs()...)
	s.SessionTimeout = 4 * time.Second // tests wait for expiries, and measure in T
	tb.Cleanup(func() {
		for _, p := range s.proxies {
			p.Heal()
		}
	})
	return s
}

// proxy returns a proxy in front of a server. It is closed when the test ends.
func (s *env) proxy(server *docker.Server) *docker.Proxy {
	s.T.Helper()
	p, err := docker.NewProxy(server.Addr())
	require.NoError(s.T, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = append(s.proxies, p)
	return p
}

// beats waits until n heartbeats were answered. After two of them the deadline has its usual distance.
func (s *env) beats(hold *lock.Hold, n int) {
	s.T.Helper()
	for range n {
		before := hold.Deadline()
		s.Eventually("a heartbeat", func() bool { return hold.Deadline().After(before) })
	}
}

// leader returns the server that leads.
func (s *env) leader() *docker.Server {
	s.T.Helper()
	leader, err := s.ensemble.Leader(s.Ctx)
	require.NoError(s.T, err)
	return leader
}

// followers returns the servers that follow.
func (s *env) followers() []*docker.Server {
	s.T.Helper()
	followers, err := s.ensemble.Followers(s.Ctx)
	require.NoError(s.T, err)
	return followers
}

// await receives from a channel, or returns the zero value when it is closed.
func await[T any](s *env, what <-chan T) T {
	s.T.Helper()
	return recipetest.Await(s.Env, what)
}
