// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { os.Exit(zktest.Main(withPrograms{m})) }

// withPrograms ends, after the last test, what the first one that needs it has started.
type withPrograms struct{ *testing.M }

func (m withPrograms) Run() int {
	status := m.M.Run()
	if err := errors.Join(closeEtcd(), os.RemoveAll(classes)); err != nil { // nothing if it is ""
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// timeout is the session timeout T.
const timeout = 10 * time.Second

// path is the path of the lock or election of a test.
const path = "/bugs/a"

// servers are the ZooKeeper servers of a test, in fake time.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

// client returns a Lockkeeper client and its link to the servers.
func (s servers) client() (*recipes.Client, *zktest.Link) {
	s.Helper()
	link := s.Link()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client, link
}

// mutex returns the lock for a new client, and its link to the servers.
func (s servers) mutex() (*lock.Mutex, *zktest.Link) {
	s.Helper()
	client, link := s.client()
	mu, err := lock.New(client, path, nil)
	require.NoError(s, err)
	return mu, link
}

// rwMutex returns the read/write lock for a new client.
func (s servers) rwMutex() *lock.RWMutex {
	s.Helper()
	client, _ := s.client()
	mu, err := lock.NewRW(client, path, nil)
	require.NoError(s, err)
	return mu
}

// election returns the election for a new client, and its link to the servers.
func (s servers) election() (*election.Election, *zktest.Link) {
	s.Helper()
	client, link := s.client()
	e, err := election.New(client, path, nil)
	require.NoError(s, err)
	return e, link
}

// conn returns a connection of the ZooKeeper client, and its link to the servers.
func (s servers) conn() (*zk.Conn, *zktest.Link) {
	s.Helper()
	link := s.Link()
	conn, _, err := zk.Connect(s.Addrs(), timeout, zk.WithDialer(link.Dialer()), zk.WithHostProvider(&oneServer{}),
		zk.WithLogger(quiet{}))
	require.NoError(s, err)
	s.Cleanup(conn.Close)
	return conn, link
}

// oneServer provides the address of the only server, which no DNS knows.
type oneServer struct {
	address string
	tried   bool
}

func (p *oneServer) Init(addresses []string) error { p.address = addresses[0]; return nil }
func (p *oneServer) Len() int                      { return 1 }
func (p *oneServer) Connected()                    {}

func (p *oneServer) Next() (address string, triedAll bool) {
	triedAll, p.tried = p.tried, true
	return p.address, triedAll
}

// quiet discards the log of the ZooKeeper client.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// queue returns the names of the contenders' nodes.
func (s servers) queue() []string {
	s.Helper()
	names, err := s.Children(path)
	require.NoError(s, err)
	return names
}

// soon waits longer than anything takes that happens without a fault.
func soon() { time.Sleep(timeout / 4) }

// A pending is a call in another goroutine.
type pending[T any] struct {
	t    *testing.T
	done chan struct{} // closed when it has returned
	got  T
	err  error
	at   time.Time // immediately after the return
}

// begin starts a call. The test does not end before the call has.
func begin[T any](t *testing.T, call func(context.Context) (T, error)) *pending[T] {
	t.Helper()
	p, ctx := &pending[T]{t: t, done: make(chan struct{})}, t.Context()
	go func() {
		defer close(p.done)
		p.got, p.err = call(ctx)
		p.at = time.Now()
	}()
	t.Cleanup(func() { <-p.done })
	return p
}

// beginError starts a call that returns only an error.
func beginError(t *testing.T, call func() error) *pending[struct{}] {
	t.Helper()
	return begin(t, func(context.Context) (struct{}, error) { return struct{}{}, call() })
}

// over reports whether the call has returned.
func (p *pending[T]) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// result waits for the call, and requires that it succeeds.
func (p *pending[T]) result() T {
	p.t.Helper()
	<-p.done
	require.NoError(p.t, p.err)
	return p.got
}
