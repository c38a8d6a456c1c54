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

// patience bounds every wait of a test.
const patience = 60 * time.Second

// A env is where one test plays: an ensemble, and a path that is the test's
// own. At the end of a test that has not failed, no ephemeral node may be left
// below that path, and no client may owe anything; then clients are closed.
type env struct {
	t        testing.TB
	ctx      context.Context // ends with the test, or with its patience
	ensemble *docker.Ensemble
	root     string   // exists, persistent, without data
	zk       *zk.Conn // for the test's own requests

	mu      sync.Mutex // guards what follows
	clients []*recipes.Client
	proxies []*docker.Proxy
}

// onOne returns an env on the shared ensemble of one server.
func onOne(tb testing.TB) *env { tb.Helper(); return newStage(tb, one.get(tb)) }

// onThree returns an env on the shared ensemble of three servers.
func onThree(tb testing.TB) *env { tb.Helper(); return newStage(tb, three.get(tb)) }

// onFresh returns an env on an ensemble that the test may break.
func onFresh(tb testing.TB, opts docker.Options) *env {
	tb.Helper()
	return newStage(tb, start(tb, opts))
}

// starting makes ensembles start one after the other: several at the same time take longer
// each, and start no sooner.
var starting sync.Mutex

func start(tb testing.TB, opts docker.Options) *docker.Ensemble {
	tb.Helper()
	starting.Lock()
	defer starting.Unlock()
	return docker.Start(tb, &opts)
}

func newStage(tb testing.TB, e *docker.Ensemble) *env {
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

// end closes the env.
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
			s.t.Errorf("closing a proxy: %v", err)
		}
	}
}

// leftNothing waits until nothing is left of what the test's clients made.
func (s *env) leftNothing() {
	var left []string
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		left = nil
		for i, c := range s.clients {
			if n := c.OutstandingNodes(); n != 0 {
				left = append(left, fmt.Sprintf("client %d owes %d", i, n))
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

// ephemerals are the ephemeral nodes at path and below it.
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

// bare is a connection of the ZooKeeper client itself.
func (s *env) bare(servers ...string) *zk.Conn {
	s.t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(mute{}))
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

type mute struct{}

func (mute) Printf(string, ...any) {}

// connect makes a client of the servers, or of all that the ensemble has. What
// the options leave open is as quick as can be.
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

// proxy stands before a server until the test ends.
func (s *env) proxy(server *docker.Server) *docker.Proxy {
	s.t.Helper()
	p, err := docker.NewProxy(server.Addr())
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = append(s.proxies, p)
	return p
}

// path is a path of the test's own.
func (s *env) path(name string) string { return s.root + "/" + name }

// mutex is the lock at the path of that name.
func (s *env) mutex(client *recipes.Client, name string) *lock.Mutex {
	s.t.Helper()
	mu, err := lock.New(client, s.path(name), nil)
	require.NoError(s.t, err)
	return mu
}

// lock takes the lock.
func (s *env) lock(mu *lock.Mutex) *lock.Hold {
	s.t.Helper()
	hold, err := mu.Lock(s.ctx)
	require.NoError(s.t, err)
	return hold
}

// unlock gives it back.
func (s *env) unlock(hold *lock.Hold) {
	s.t.Helper()
	require.NoError(s.t, hold.Unlock(s.ctx))
}

// nodes are the children of the path of that name, sorted, and as new as whatever
// a client of this process has read before.
func (s *env) nodes(name string) []string {
	s.t.Helper()
	return s.list(s.zk, name, true)
}

// stat is a node's, as it is now: without a sync the server that is asked may be behind the one that the client under test
// has.
func (s *env) stat(path string) *zk.Stat {
	s.t.Helper()
	_, err := s.zk.Sync(path)
	require.NoError(s.t, err)
	_, stat, err := s.zk.Get(path)
	require.NoError(s.t, err)
	return stat
}

// nodesBy are the children as the server of another connection sees them, sorted.
func (s *env) nodesBy(conn *zk.Conn, name string) []string {
	s.t.Helper()
	return s.list(conn, name, false)
}

// list asks until it is answered: there are tests that take the server away.
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
			require.FailNow(s.t, "waited in vain: "+what)
		}
		pause()
	}
}

// pause is how long the tests wait between two looks at a condition.
func pause() { <-time.After(10 * time.Millisecond) }

// await takes what comes next, or notices that a channel was closed.
func await[T any](s *env, what <-chan T) T {
	s.t.Helper()
	select {
	case v := <-what:
		return v
	case <-s.ctx.Done():
		require.FailNow(s.t, "waited in vain")
		panic("unreachable")
	}
}

// waiting waits until n contenders stand in line.
func (s *env) waiting(name string, n int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d contenders at %s", n, name), func() bool { return len(s.nodes(name)) == n })
}

// done waits for a claim to end, and returns why it did.
func (s *env) done(claim interface {
	Done() <-chan struct{}
	Err() error
},
) error {
	s.t.Helper()
	await(s, claim.Done())
	return claim.Err()
}

// beats waits until n heartbeats were answered. After two of them the deadline is
// what it is in the long run.
func (s *env) beats(hold *lock.Hold, n int) {
	s.t.Helper()
	for range n {
		before := hold.Deadline()
		s.eventually("a heartbeat", func() bool { return hold.Deadline().After(before) })
	}
}

// leader is the server that leads.
func (s *env) leader() *docker.Server {
	s.t.Helper()
	leader, err := s.ensemble.Leader(s.ctx)
	require.NoError(s.t, err)
	return leader
}

// followers are the servers that follow.
func (s *env) followers() []*docker.Server {
	s.t.Helper()
	followers, err := s.ensemble.Followers(s.ctx)
	require.NoError(s.t, err)
	return followers
}

// A locking is a Lock that is under way.
type locking struct {
	env   *env
	ended chan struct{} // closed when Lock has returned
	hold  *lock.Hold    // valid then, as is what follows
	err   error
	at    time.Time // right after it returned
}

// locking begins a Lock. The test ends only after it has.
func (s *env) locking(ctx context.Context, mu *lock.Mutex) *locking {
	l := &locking{env: s, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.hold, l.err = mu.Lock(ctx)
		l.at = time.Now()
	}()
	s.t.Cleanup(func() { <-l.ended })
	return l
}

// result waits for what Lock returned.
func (l *locking) result() (*lock.Hold, error) {
	l.env.t.Helper()
	await(l.env, l.ended)
	return l.hold, l.err
}

// granted waits until the lock is held.
func (l *locking) granted() *lock.Hold {
	l.env.t.Helper()
	hold, err := l.result()
	require.NoError(l.env.t, err)
	return hold
}

// over says whether Lock has returned.
func (l *locking) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}
