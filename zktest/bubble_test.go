// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) {
	child.Main()
	zk.DefaultLogger = log.New(io.Discard, "", 0)
	os.Exit(zktest.Main(m))
}

// inMemory starts an ensemble for a bubble.
func inMemory(t *testing.T, opts zktest.Options) *zktest.Ensemble {
	t.Helper()
	opts.InMemory = true
	return zktest.Start(t, &opts)
}

// A client is the Go client on its own link, with the history of its session's states.
type client struct {
	*zk.Conn
	t    *testing.T
	link *zktest.Link

	mu     sync.Mutex // guards states
	states []state
}

type state struct {
	zk.State
	at time.Time
}

// neverFailing makes connections whose Write never fails: a failed one closes the
// connection, which its reader notices. Otherwise the client answers a request whose
// Write has failed twice, and blocks forever if no goroutine receives the second answer
// (go-zookeeper v1.0.4: sendData, flushRequests).
func neverFailing(dial zk.Dialer) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return neverFailingConn{conn}, nil
	}
}

type neverFailingConn struct{ net.Conn }

func (c neverFailingConn) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		_ = c.Conn.Close()
	}
	return len(p), nil
}

// connect returns a client that knows these servers, in this order; nil means all.
func connect(t *testing.T, e *zktest.Ensemble, timeout time.Duration, servers ...string) *client {
	t.Helper()
	if servers == nil {
		servers = e.Addrs()
	}
	c := &client{t: t, link: e.Link()}
	conn, events, err := zk.Connect(servers, timeout,
		zk.WithDialer(neverFailing(c.link.Dialer())),
		zk.WithHostProvider(&inOrder{servers: servers}),
		zk.WithLogInfo(false),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.Type == zk.EventSession {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.states = append(c.states, state{ev.State, time.Now()})
			}
		}))
	require.NoError(t, err)
	c.Conn = conn
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines have ended
		}
	})
	c.eventually(zk.StateHasSession)
	return c
}

// since returns the time at which the session first entered the state, at or after the
// given time, or zero.
func (c *client) since(s zk.State, after time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seen := range c.states {
		if seen.State == s && !seen.at.Before(after) {
			return seen.at
		}
	}
	return time.Time{}
}

func (c *client) eventually(s zk.State) {
	c.t.Helper()
	waitFor(c.t, fmt.Sprint("the client is in state ", s), func() bool { return !c.since(s, time.Time{}).IsZero() })
}

func (c *client) create(path string, flags int32) string {
	c.t.Helper()
	got, err := c.Create(path, nil, flags, zk.WorldACL(zk.PermAll))
	require.NoError(c.t, err)
	return got
}

// waitFor waits for a condition, in fake time or in real time.
func waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	for began := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			require.FailNow(t, "condition not met in time: "+what)
		}
	}
}

// inOrder is a HostProvider that tries the servers in the given order.
type inOrder struct {
	mu      sync.Mutex // guards what follows
	servers []string
	next    int
}

// Init ignores its argument: the servers, shuffled.
func (p *inOrder) Init([]string) error { return nil }

func (p *inOrder) Len() int { return len(p.servers) }

func (p *inOrder) Next() (server string, retryStart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server = p.servers[p.next%len(p.servers)]
	p.next++
	return server, p.next > 1 && (p.next-1)%len(p.servers) == 0
}

func (p *inOrder) Connected() {}
