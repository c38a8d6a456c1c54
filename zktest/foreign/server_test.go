// SPDX-License-Identifier: Apache-2.0

// Package foreign contains only tests: they run other libraries' clients against zktest, and let them contend with our
// locks there. With ZKTEST_FOREIGN_SERVERS=host:port they use that server instead, which distinguishes a defect of
// zktest from one of a test.
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

// A server is the ensemble of a test, and a path on it that only this test uses. The node at that path does not exist
// yet.
type server struct {
	addresses []string
	root      string
	ensemble  *zktest.Ensemble // nil for a real server
}

// sessionTimeout is what go-zookeeper's connections request, like the programs of the other libraries: the longest that zktest
// grants by default.
const sessionTimeout = 10 * time.Second

// serve starts a zktest server for the test, or returns the real one that the environment names.
func serve(t *testing.T) *server {
	t.Helper()
	if real := os.Getenv("ZKTEST_FOREIGN_SERVERS"); real != "" {
		return &server{addresses: strings.Split(real, ","), root: freshRoot()}
	}
	ensemble := zktest.Start(t, &zktest.Options{ContainerInterval: time.Hour}) // no check deletes a path between two acquires
	return &server{addresses: ensemble.Addrs(), root: freshRoot(), ensemble: ensemble}
}

func freshRoot() string { return "/foreign-" + strings.ToLower(rand.Text()) }

// list returns the servers' addresses as a connect string.
func (s *server) list() string { return strings.Join(s.addresses, ",") }

// connect returns a go-zookeeper connection with a session.
func (s *server) connect(t *testing.T) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(s.addresses, sessionTimeout, zk.WithLogger(quiet{}))
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

// client returns a Lockkeeper client.
func (s *server) client(t *testing.T) *recipes.Client {
	t.Helper()
	return s.connectClient(t, &recipes.Options{})
}

func (s *server) connectClient(t *testing.T, opts *recipes.Options) *recipes.Client {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	client, err := recipes.Connect(bounded(t), s.addresses, opts)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// quiet discards go-zookeeper's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
