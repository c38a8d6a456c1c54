// SPDX-License-Identifier: Apache-2.0

// Package recipetest has the environment of tests that run against the servers of ZK_SERVERS: a server of zktest in this
// process, or real ones.
package recipetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Patience is the time limit of a test, and of each wait in it.
const Patience = 3 * time.Minute

// An Env is the environment of one test: servers, and a root path that no other test uses. At the end of a test that has not
// failed, it requires that no ephemeral node exists below the root and that no client has outstanding nodes. Then it closes
// the clients.
type Env struct {
	T    testing.TB
	Ctx  context.Context // ends with the test, or after Patience
	Root string          // exists, persistent, without data
	ZK   *zk.Conn        // for requests of the test itself

	// SessionTimeout is Connect's default. New sets it to 10 s: no stall of a busy machine is so long that it ends a claim.
	SessionTimeout time.Duration

	servers []string

	mu      sync.Mutex // guards clients
	clients []*recipes.Client
}

// New returns an Env on the servers, or on the servers of ZK_SERVERS.
func New(tb testing.TB, servers ...string) *Env {
	tb.Helper()
	if len(servers) == 0 {
		servers = strings.Split(os.Getenv("ZK_SERVERS"), ",")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	s := &Env{T: tb, Ctx: ctx, SessionTimeout: 10 * time.Second, servers: servers}
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '_' || r == '#' {
			return '-'
		}
		return r
	}, tb.Name())
	s.Root = fmt.Sprintf("/%s-%08x", name, rand.Uint32())
	s.ZK = s.Bare(servers...)
	tb.Cleanup(func() {
		cancel()
		s.end()
	})
	_, err := s.ZK.Create(s.Root, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(tb, err)
	return s
}

// end checks that the test has left nothing, and closes the clients.
func (s *Env) end() {
	if !s.T.Failed() && !s.T.Skipped() {
		s.leftNothing()
	}
	var closing sync.WaitGroup
	for _, c := range s.clients {
		closing.Go(func() { c.Close() })
	}
	closing.Wait()
	s.ZK.Close()
}

// leftNothing fails the test unless all nodes of its clients are deleted within 15 s.
func (s *Env) leftNothing() {
	var left []string
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		left = nil
		for i, c := range s.clients {
			if n := c.OutstandingNodes(); n != 0 {
				left = append(left, fmt.Sprintf("client %d has %d outstanding nodes", i, n))
			}
		}
		ephemerals, err := s.ephemerals(s.Root)
		if err != nil {
			ephemerals = []string{err.Error()}
		}
		if left = append(left, ephemerals...); len(left) == 0 {
			return
		}
		Pause()
	}
	s.T.Errorf("left behind: %q", left)
}

// ephemerals returns the ephemeral nodes at path and below it.
func (s *Env) ephemerals(path string) ([]string, error) {
	exists, stat, err := s.ZK.Exists(path)
	if err != nil || !exists {
		return nil, err
	}
	if stat.EphemeralOwner != 0 {
		return []string{path}, nil
	}
	children, _, err := s.ZK.Children(path)
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

// Bare returns a connection of the ZooKeeper client, without the recipes.
func (s *Env) Bare(servers ...string) *zk.Conn {
	s.T.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(s.T, err)
	for {
		select {
		case ev := <-events:
			if ev.State == zk.StateHasSession {
				return conn
			}
		case <-s.Ctx.Done():
			conn.Close()
			require.FailNow(s.T, "no session", "with %q", servers)
		}
	}
}

// silent discards the log of the ZooKeeper client.
type silent struct{}

func (silent) Printf(string, ...any) {}

// Connect returns a client of the given servers, or of all servers. By default its session timeout is SessionTimeout and it
// logs nothing.
func (s *Env) Connect(opts recipes.Options, servers ...string) *recipes.Client {
	s.T.Helper()
	if len(servers) == 0 {
		servers = s.servers
	}
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = s.SessionTimeout
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := recipes.Connect(s.Ctx, servers, &opts)
	require.NoError(s.T, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, client)
	return client
}

// Path returns a path below the test's root.
func (s *Env) Path(name string) string { return s.Root + "/" + name }

// Mutex returns the lock at the path of that name.
func (s *Env) Mutex(client *recipes.Client, name string) *lock.Mutex {
	s.T.Helper()
	mu, err := lock.New(client, s.Path(name), nil)
	require.NoError(s.T, err)
	return mu
}

// Lock acquires the lock.
func (s *Env) Lock(mu *lock.Mutex) *lock.Hold {
	s.T.Helper()
	hold, err := mu.Lock(s.Ctx)
	require.NoError(s.T, err)
	return hold
}

// Unlock releases the lock.
func (s *Env) Unlock(hold *lock.Hold) {
	s.T.Helper()
	require.NoError(s.T, hold.Unlock(s.Ctx))
}

// Nodes returns the children of the path of that name, sorted, after a sync.
func (s *Env) Nodes(name string) []string {
	s.T.Helper()
	return s.list(s.ZK, name, true)
}

// Stat returns a node's Stat after a sync: this connection's server may lag behind the server of the client under test.
func (s *Env) Stat(path string) *zk.Stat {
	s.T.Helper()
	_, err := s.ZK.Sync(path)
	require.NoError(s.T, err)
	_, stat, err := s.ZK.Get(path)
	require.NoError(s.T, err)
	return stat
}

// NodesBy returns the children as the server of another connection shows them, sorted, without a sync.
func (s *Env) NodesBy(conn *zk.Conn, name string) []string {
	s.T.Helper()
	return s.list(conn, name, false)
}

// list lists the children of the path of that name. It retries, because some tests stop the server.
func (s *Env) list(conn *zk.Conn, name string, newest bool) []string {
	s.T.Helper()
	for {
		var err error
		if newest {
			_, err = conn.Sync(s.Path(name))
		}
		var children []string
		if err == nil {
			children, _, err = conn.Children(s.Path(name))
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			slices.Sort(children)
			return children
		}
		if s.Ctx.Err() != nil {
			require.NoError(s.T, err)
		}
		Pause()
	}
}

// Eventually waits until the condition holds.
func (s *Env) Eventually(what string, holds func() bool) {
	s.T.Helper()
	for !holds() {
		if s.Ctx.Err() != nil {
			require.FailNow(s.T, "timeout: "+what)
		}
		Pause()
	}
}

// Pause waits for the time between two checks of a condition.
func Pause() { <-time.After(10 * time.Millisecond) }

// Await receives from a channel, or returns the zero value when it is closed.
func Await[T any](s *Env, what <-chan T) T {
	s.T.Helper()
	select {
	case v := <-what:
		return v
	case <-s.Ctx.Done():
		require.FailNow(s.T, "timeout: nothing was received")
		panic("unreachable")
	}
}

// Waiting waits until n contenders are queued at the path of that name.
func (s *Env) Waiting(name string, n int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("%d contenders at %s", n, name), func() bool { return len(s.Nodes(name)) == n })
}

// Done waits until a claim has ended, and returns its error.
func (s *Env) Done(claim interface {
	Done() <-chan struct{}
	Err() error
},
) error {
	s.T.Helper()
	Await(s, claim.Done())
	return claim.Err()
}
