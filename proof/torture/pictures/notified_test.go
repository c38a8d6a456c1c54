// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"context"
	"fmt"
	"io"
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
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const notifiedTimeout = 4 * time.Second

// The network carries nothing for this long, and then again.
const silence = 8 * time.Second

// A network is one client's path to the servers. While it is silent, it passes nothing, and new connections are accepted and never
// answered, not even afterwards.
type network struct {
	link   *zktest.Link
	silent atomic.Bool
}

func (n *network) dial(ctx context.Context, name, address string) (net.Conn, error) {
	if !n.silent.Load() {
		return n.link.Dial(ctx, name, address)
	}
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }() // until the client closes its end
	return here, nil
}

// partitioned runs a client through a silence in fake time. Begin prepares the client, which creates one node below path, and returns
// what runs during the silence. It returns how long after its beginning the client's node was deleted.
func partitioned(t *testing.T, path string, begin func(t *testing.T, server string, n *network) (during func(began time.Time))) (deleted time.Duration) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, &zktest.Options{Tick: notifiedTimeout / 8, InMemory: true})
		n := &network{link: srv.Link()}
		during := begin(t, srv.Addrs()[0], n)
		synctest.Wait()
		began := time.Now()
		n.link.Hold(zktest.Both)
		n.silent.Store(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			during(began)
		}()
		for {
			children, err := srv.Children(path)
			require.NoError(t, err)
			if len(children) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		deleted = time.Since(began)
		time.Sleep(silence - time.Since(began))
		n.silent.Store(false)
		n.link.Release()
		<-done
	})
	return deleted
}

func TestPictureOfNotificationsIsMeasured(t *testing.T) {
	var notified, disconnected, expired time.Duration
	ours := partitioned(t, "/locks", func(t *testing.T, server string, n *network) func(time.Time) {
		t.Helper()
		client, err := recipes.Connect(t.Context(), []string{server}, &recipes.Options{SessionTimeout: notifiedTimeout, Dial: n.dial})
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		mu, err := lock.New(client, "/locks", nil)
		require.NoError(t, err)
		hold, err := mu.Lock(t.Context())
		require.NoError(t, err)
		return func(began time.Time) {
			<-hold.Done()
			notified = time.Since(began)
		}
	})
	theirs := partitioned(t, "/locks", func(t *testing.T, server string, n *network) func(time.Time) {
		t.Helper()
		conn, events := dialWithEvents(t, notifiedTimeout, server, n.dial)
		require.NoError(t, zk.NewLock(conn, "/locks", zk.WorldACL(zk.PermAll)).Lock())
		return func(began time.Time) {
			for event := range events {
				switch {
				case event.State == zk.StateDisconnected && event.Type == zk.EventSession && disconnected == 0:
					disconnected = time.Since(began)
				case event.State == zk.StateExpired:
					expired = time.Since(began)
					return
				}
			}
		}
	})
	t.Logf("Lockkeeper: notified after %v, node deleted after %v; zk: disconnected %v, expired %v, node deleted %v", notified, ours, disconnected, expired, theirs)
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)
	for _, number := range []string{fmt.Sprintf("`StateExpired` %.1f s after a partition at T = %v s", expired.Seconds(), notifiedTimeout.Seconds()), fmt.Sprintf("the node was gone after %.1f s [R]", theirs.Seconds())} {
		require.Contains(t, string(readme), number)
	}
	require.Less(t, notified, ours)
	require.Greater(t, expired, theirs)
	compare(t, "notified.svg", drawNotified([]notification{
		{"Lockkeeper: Hold.Done", notified, true},
		{"go-zookeeper: StateDisconnected", disconnected, false},
		{"go-zookeeper: StateExpired", expired, false},
	}, max(ours, theirs)))
}

type notification struct {
	name string
	at   time.Duration
	ours bool
}

func drawNotified(all []notification, deleted time.Duration) []byte {
	const left, scale, top, step = 230.0, 14.0, 84.0, 36.0
	bottom := top + step*float64(len(all))
	c := newCanvas(740, bottom+34)
	x := func(d time.Duration) float64 { return left + scale*d.Seconds() }
	c.text(20, 28, 15, 0, black, true, "How long after a network partition a holder is notified")
	c.text(20, 46, 11, 0, grey, false, fmt.Sprintf("Session timeout %v; the network carries nothing for %v, and new connections are never answered.\n", notifiedTimeout, silence)+
		"Run on zktest in fake time, with go-zookeeper v1.0.4, whose zk.Lock itself notifies no caller.")
	for i, n := range all {
		y := top + step*float64(i)
		fill := silver
		if n.ours {
			fill = green
		}
		c.text(left-12, y+14, 12, 1, black, n.ours, n.name)
		c.box(left, y, x(n.at)-left, 20, fill)
		c.text(x(max(n.at, deleted))+6, y+14, 12, 0, black, true, fmt.Sprintf("%.1f s", n.at.Seconds()))
	}
	c.line(x(deleted), top-6, x(deleted), bottom+10, 1.2, red, 4, 3)
	c.text(x(deleted)+6, bottom+14, 11, 0, red, false, fmt.Sprintf("%.1f s: the session has expired, and another client can hold the lock", deleted.Seconds()))
	return c.svg()
}
