// SPDX-License-Identifier: Apache-2.0

// Package foreign holds no code: its tests have clients that we did not write work against zktest, and contend with our
// locks there. With ZKTEST_FOREIGN_SERVERS=host:port they ask that server in its place, which tells a fault of zktest
// from one of a test.
package foreign

import (
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A server is what the clients of a test talk to, and a path there that is theirs alone. Nobody has made it yet.
type server struct {
	addresses []string
	root      string
	ensemble  *zktest.Ensemble // nil for a real one
}

// serve starts a zktest server for the test, or names the real one.
func serve(t *testing.T) *server {
	t.Helper()
	if real := os.Getenv("ZKTEST_FOREIGN_SERVERS"); real != "" {
		return realServer(real)
	}
	ensemble := zktest.Start(t)
	return &server{addresses: ensemble.Servers(), root: freshRoot(), ensemble: ensemble}
}

// serveWithSwitches is serve for a test that does to the server what only zktest can have done to it.
func serveWithSwitches(t *testing.T) *server {
	t.Helper()
	s := serve(t)
	if s.ensemble == nil {
		t.Skip("not run: the test uses switches that a real server does not have")
	}
	return s
}

func realServer(addresses string) *server {
	return &server{addresses: strings.Split(addresses, ","), root: freshRoot()}
}

func freshRoot() string { return "/foreign-" + strings.ToLower(rand.Text()) }

// list is the servers' addresses as other clients want them.
func (s *server) list() string { return strings.Join(s.addresses, ",") }

// connect opens a go-zookeeper connection that has a session.
func (s *server) connect(t *testing.T) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(s.addresses, 4*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	ctx := bounded(t)
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-ctx.Done():
			require.FailNow(t, "no session")
		}
	}
	return conn
}

// client opens a client of ours.
func (s *server) client(t *testing.T) *recipes.Client {
	t.Helper()
	client, err := recipes.Connect(bounded(t), s.addresses, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// quiet keeps go-zookeeper's log out of the tests'.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
