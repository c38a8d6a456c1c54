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

// A stage is where one test plays: an ensemble, and a path that is the test's
// own. At the end of a test that has not failed, no ephemeral node may be left
// below that path, and no client may owe anything; then clients are closed.
type stage struct {
	t        testing.TB
	ctx      context.Context // ends with the test, or with its patience
	ensemble *docker.Ensemble
	root     string   // exists, persistent, without data
	zk       *zk.Conn // for what the test does by hand

	mu      sync.Mutex // guards what follows
	clients []*recipes.Client
	proxies []*docker.Proxy
}

// onOne is a stage on the shared ensemble of one server.
func onOne(tb testing.TB) *stage { tb.Helper(); return newStage(tb, one.get(tb)) }

// onThree is a stage on the shared ensemble of three servers.
func onThree(tb testing.TB) *stage { tb.Helper(); return newStage(tb, three.get(tb)) }

// onFresh is a stage on an ensemble that the test may break.
func onFresh(tb testing.TB, opts docker.Options) *stage {
	tb.Helper()
	return newStage(tb, start(tb, opts))
}

// starting has ensembles start one after the other: several at once take longer
// each, and start no sooner.
var starting sync.Mutex

func start(tb testing.TB, opts docker.Options) *docker.Ensemble {
	tb.Helper()
	starting.Lock()
	defer starting.Unlock()
	return docker.Start(tb, &opts)
}

func newStage(tb testing.TB, e *docker.Ensemble) *stage {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	s := &stage{t: tb, ctx: ctx, ensemble: e}
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

// end takes the stage down.
func (s *stage) end() {
	for _, p := range s.proxies {
		p.Pass()
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
func (s *stage) leftNothing() {
	var left []string
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		left = nil
		for i, c := range s.clients {
			if n := c.Ledger(); n != 0 {
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
func (s *stage) ephemerals(path string) ([]string, error) {
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
func (s *stage) bare(servers ...string) *zk.Conn {
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
func (s *stage) connect(opts recipes.Options, servers ...string) *recipes.Client {
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
func (s *stage) proxy(server *docker.Server) *docker.Proxy {
	s.t.Helper()
	p, err := docker.NewProxy(server.Addr())
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = append(s.proxies, p)
	return p
}

// path is a path of the test's own.
func (s *stage) path(name string) string { return s.root + "/" + name }

// mutex is the lock at the path of that name.
func (s *stage) mutex(client *recipes.Client, name string) *lock.Mutex {
	s.t.Helper()
	mu, err := lock.New(client, s.path(name), nil)
	require.NoError(s.t, err)
	return mu
}

// lock takes the lock.
func (s *stage) lock(mu *lock.Mutex) *lock.Hold {
	s.t.Helper()
	hold, err := mu.Lock(s.ctx)
	require.NoError(s.t, err)
	return hold
}

// unlock gives it back.
func (s *stage) unlock(hold *lock.Hold) {
	s.t.Helper()
	require.NoError(s.t, hold.Unlock(s.ctx))
}

// nodes are the children of the path of that name, sorted, and as new as whatever
// a client of this process was told before.
func (s *stage) nodes(name string) []string {
	s.t.Helper()
	return s.list(s.zk, name, true)
}

// stat is a node's, as it is now: without a sync the server that is asked may be behind the one that the client under test
// has.
func (s *stage) stat(path string) *zk.Stat {
	s.t.Helper()
	_, err := s.zk.Sync(path)
	require.NoError(s.t, err)
	_, stat, err := s.zk.Get(path)
	require.NoError(s.t, err)
	return stat
}

// nodesBy are the children as the server of another connection sees them, sorted.
func (s *stage) nodesBy(conn *zk.Conn, name string) []string {
	s.t.Helper()
	return s.list(conn, name, false)
}

// list asks until it is answered: there are tests that take the server away.
func (s *stage) list(conn *zk.Conn, name string, newest bool) []string {
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
func (s *stage) eventually(what string, holds func() bool) {
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
func await[T any](s *stage, what <-chan T) T {
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
func (s *stage) waiting(name string, n int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d contenders at %s", n, name), func() bool { return len(s.nodes(name)) == n })
}

// done waits for a claim to end, and returns why it did.
func (s *stage) done(claim interface {
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
func (s *stage) beats(hold *lock.Hold, n int) {
	s.t.Helper()
	for range n {
		before := hold.Deadline()
		s.eventually("a heartbeat", func() bool { return hold.Deadline().After(before) })
	}
}

// leader is the server that leads.
func (s *stage) leader() *docker.Server {
	s.t.Helper()
	leader, err := s.ensemble.Leader(s.ctx)
	require.NoError(s.t, err)
	return leader
}

// followers are the servers that follow.
func (s *stage) followers() []*docker.Server {
	s.t.Helper()
	followers, err := s.ensemble.Followers(s.ctx)
	require.NoError(s.t, err)
	return followers
}

// A locking is a Lock that is under way.
type locking struct {
	stage *stage
	ended chan struct{} // closed when Lock has returned
	hold  *lock.Hold    // valid then, as is what follows
	err   error
	at    time.Time // right after it returned
}

// locking begins a Lock. The test ends only after it has.
func (s *stage) locking(ctx context.Context, mu *lock.Mutex) *locking {
	l := &locking{stage: s, ended: make(chan struct{})}
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
	l.stage.t.Helper()
	await(l.stage, l.ended)
	return l.hold, l.err
}

// granted waits until the lock is held.
func (l *locking) granted() *lock.Hold {
	l.stage.t.Helper()
	hold, err := l.result()
	require.NoError(l.stage.t, err)
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
