// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// patience is the time limit of a test, and of each wait in it.
const patience = 60 * time.Second

// An env is the environment of one test: an ensemble, and a root path that no other test uses. At the end of a test that has
// not failed, it requires that no ephemeral node exists below the root and that no client has outstanding nodes. Then it
// closes the clients.
type env struct {
	t        testing.TB
	ctx      context.Context // ends with the test, or after patience
	ensemble *docker.Ensemble
	root     string   // exists, persistent, without data
	zk       *zk.Conn // for requests of the test itself

	mu      sync.Mutex // guards what follows
	clients []*recipes.Client
	proxies []*docker.Proxy
}

// onOne returns an env on the shared ensemble of one server.
func onOne(tb testing.TB) *env { tb.Helper(); return newEnv(tb, one.get(tb)) }

// onThree returns an env on the shared ensemble of three servers.
func onThree(tb testing.TB) *env { tb.Helper(); return newEnv(tb, three.get(tb)) }

// onFresh returns an env on its own ensemble, which the test may break.
func onFresh(tb testing.TB, opts docker.Options) *env {
	tb.Helper()
	return newEnv(tb, start(tb, opts))
}

// starting serializes the starts of ensembles. Several at the same time would not be ready earlier.
var starting sync.Mutex

// breaking limits the ensembles that tests break at the same time. Servers that start under the load of many others are late:
// an isolated leader then resigns before its followers lead again.
var breaking = make(chan struct{}, 3)

// start starts an ensemble that ends with the test. A shared one is not broken.
func start(tb testing.TB, opts docker.Options) *docker.Ensemble {
	tb.Helper()
	if _, shared := tb.(lasting); !shared {
		breaking <- struct{}{}
		tb.Cleanup(func() { <-breaking })
	}
	starting.Lock()
	defer starting.Unlock()
	return docker.Start(tb, &opts)
}

func newEnv(tb testing.TB, e *docker.Ensemble) *env {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	s := &env{t: tb, ctx: ctx, ensemble: e}
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '_' || r == '#' {
			return '-'
		}
		return r
	}, tb.Name())
	s.root = fmt.Sprintf("/%s-%08x", name, rand.Uint32())
	s.zk = s.bare(e.Addrs()...)
	tb.Cleanup(func() {
		cancel()
		s.end()
	})
	_, err := s.zk.Create(s.root, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(tb, err)
	return s
}

// end checks that the test has left nothing, and closes clients and proxies.
func (s *env) end() {
	for _, p := range s.proxies {
		p.Heal()
	}
	if !s.t.Failed() && !s.t.Skipped() {
		s.leftNothing()
	}
	var closing sync.WaitGroup
	for _, c := range s.clients {
		closing.Go(c.Close)
	}
	closing.Wait()
	s.zk.Close()
	for _, p := range s.proxies {
		if err := p.Close(); err != nil {
			s.t.Errorf("close a proxy: %v", err)
		}
	}
}

// leftNothing fails the test unless all nodes of its clients are deleted within 15 s.
func (s *env) leftNothing() {
	var left []string
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		left = nil
		for i, c := range s.clients {
			if n := c.OutstandingNodes(); n != 0 {
				left = append(left, fmt.Sprintf("client %d has %d outstanding nodes", i, n))
			}
		}
		ephemerals, err := s.ephemerals(s.root)
		if err != nil {
			ephemerals = []string{err.Error()}
		}
		if left = append(left, ephemerals...); len(left) == 0 {
			return
		}
		pause()
	}
	s.t.Errorf("left behind: %q", left)
}

// ephemerals returns the ephemeral nodes at path and below it.
func (s *env) ephemerals(path string) ([]string, error) {
	exists, stat, err := s.zk.Exists(path)
	if err != nil || !exists {
		return nil, err
	}
	if stat.EphemeralOwner != 0 {
		return []string{path}, nil
	}
	children, _, err := s.zk.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	var found []string
	for _, child := range children {
		below, err := s.ephemerals(path + "/" + child)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, err
}

// bare returns a connection of the ZooKeeper client, without the recipes.
func (s *env) bare(servers ...string) *zk.Conn {
	s.t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(s.t, err)
	for {
		select {
		case ev := <-events:
			if ev.State == zk.StateHasSession {
				return conn
			}
		case <-s.ctx.Done():
			conn.Close()
			require.FailNow(s.t, "no session", "with %q", servers)
		}
	}
}

// silent discards the log of the ZooKeeper client.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connect returns a client of the given servers, or of all servers of the ensemble. By default its session timeout is 4 s and
// it logs nothing.
func (s *env) connect(opts recipes.Options, servers ...string) *recipes.Client {
	s.t.Helper()
	if len(servers) == 0 {
		servers = s.ensemble.Addrs()
	}
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = 4 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := recipes.Connect(s.ctx, servers, &opts)
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, client)
	return client
}

// proxy returns a proxy in front of a server. It is closed when the test ends.
func (s *env) proxy(server *docker.Server) *docker.Proxy {
	s.t.Helper()
	p, err := docker.NewProxy(server.Addr())
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = append(s.proxies, p)
	return p
}

// path returns a path below the test's root.
func (s *env) path(name string) string { return s.root + "/" + name }

// mutex returns the lock at the path of that name.
func (s *env) mutex(client *recipes.Client, name string) *lock.Mutex {
	s.t.Helper()
	mu, err := lock.New(client, s.path(name), nil)
	require.NoError(s.t, err)
	return mu
}

// lock acquires the lock.
func (s *env) lock(mu *lock.Mutex) *lock.Hold {
	s.t.Helper()
	hold, err := mu.Lock(s.ctx)
	require.NoError(s.t, err)
	return hold
}

// unlock releases the lock.
func (s *env) unlock(hold *lock.Hold) {
	s.t.Helper()
	require.NoError(s.t, hold.Unlock(s.ctx))
}

// nodes returns the children of the path of that name, sorted, after a sync.
func (s *env) nodes(name string) []string {
	s.t.Helper()
	return s.list(s.zk, name, true)
}

// stat returns a node's Stat after a sync: this connection's server may lag behind that of the client under test.
func (s *env) stat(path string) *zk.Stat {
	s.t.Helper()
	_, err := s.zk.Sync(path)
	require.NoError(s.t, err)
	_, stat, err := s.zk.Get(path)
	require.NoError(s.t, err)
	return stat
}

// nodesBy returns the children as the server of another connection shows them, sorted, without a sync.
func (s *env) nodesBy(conn *zk.Conn, name string) []string {
	s.t.Helper()
	return s.list(conn, name, false)
}

// list lists the children of the path of that name. It retries, because some tests stop the server.
func (s *env) list(conn *zk.Conn, name string, newest bool) []string {
	s.t.Helper()
	for {
		var err error
		if newest {
			_, err = conn.Sync(s.path(name))
		}
		var children []string
		if err == nil {
			children, _, err = conn.Children(s.path(name))
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			slices.Sort(children)
			return children
		}
		if s.ctx.Err() != nil {
			require.NoError(s.t, err)
		}
		pause()
	}
}

// eventually waits until the condition holds.
func (s *env) eventually(what string, holds func() bool) {
	s.t.Helper()
	for !holds() {
		if s.ctx.Err() != nil {
			require.FailNow(s.t, "timeout: "+what)
		}
		pause()
	}
}

// pause waits for the time between two checks of a condition.
func pause() { <-time.After(10 * time.Millisecond) }

// await receives from a channel, or returns the zero value when it is closed.
func await[T any](s *env, what <-chan T) T {
	s.t.Helper()
	select {
	case v := <-what:
		return v
	case <-s.ctx.Done():
		require.FailNow(s.t, "timeout: nothing was received")
		panic("unreachable")
	}
}

// waiting waits until n contenders are queued at the path of that name.
func (s *env) waiting(name string, n int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d contenders at %s", n, name), func() bool { return len(s.nodes(name)) == n })
}

// done waits until a claim has ended, and returns its error.
func (s *env) done(claim interface {
	Done() <-chan struct{}
	Err() error
},
) error {
	s.t.Helper()
	await(s, claim.Done())
	return claim.Err()
}

// beats waits until n heartbeats were answered. After two of them the deadline has its usual distance.
func (s *env) beats(hold *lock.Hold, n int) {
	s.t.Helper()
	for range n {
		before := hold.Deadline()
		s.eventually("a heartbeat", func() bool { return hold.Deadline().After(before) })
	}
}

// leader returns the server that leads.
func (s *env) leader() *docker.Server {
	s.t.Helper()
	leader, err := s.ensemble.Leader(s.ctx)
	require.NoError(s.t, err)
	return leader
}

// followers returns the servers that follow.
func (s *env) followers() []*docker.Server {
	s.t.Helper()
	followers, err := s.ensemble.Followers(s.ctx)
	require.NoError(s.t, err)
	return followers
}
