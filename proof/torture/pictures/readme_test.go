// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestREADMESaysHowManyClientsHoldZKLockAtTheEndOfItsCounter(t *testing.T) {
	const clients = 4
	var holders atomic.Int32
	faketime.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, &zktest.Options{InMemory: true})
		var conns []*zk.Conn
		for range clients {
			conns = append(conns, dial(t, 4*time.Second, srv.Addrs()[0], srv.Dial))
		}
		_, err := conns[0].Create("/locks", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, srv.SetCounter("/locks", 2147483647))
		for _, conn := range conns {
			go func() {
				if zk.NewLock(conn, "/locks", zk.WorldACL(zk.PermAll)).Lock() == nil {
					holders.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), fmt.Sprintf("%d of %d clients held it at the same time [R]", holders.Load(), clients))
}

// dial connects go-zookeeper's client by a dial function, and looks nothing up.
func dial(t *testing.T, timeout time.Duration, server string, by func(context.Context, string, string) (net.Conn, error)) *zk.Conn {
	t.Helper()
	conn, _ := dialWithEvents(t, timeout, server, by)
	return conn
}

func dialWithEvents(t *testing.T, timeout time.Duration, server string, by func(context.Context, string, string) (net.Conn, error)) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect([]string{"127.0.0.1:2181"}, timeout, zk.WithLogInfo(false), zk.WithLogger(silent{}),
		zk.WithDialer(func(network, _ string, limit time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			return by(ctx, network, server)
		}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, events
}

// silent is a logger of go-zookeeper that drops everything.
type silent struct{}

func (silent) Printf(string, ...any) {}
