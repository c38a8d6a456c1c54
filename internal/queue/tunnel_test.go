// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A tunnel makes connections whose Close does not return before the tunnel is shut.
type tunnel struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	shut chan struct{}

	mu    sync.Mutex // guards conns
	conns []*tunnelConn
}

func newTunnel(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) *tunnel {
	t.Helper()
	return &tunnel{dial: dial, shut: make(chan struct{})}
}

func (u *tunnel) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := u.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &tunnelConn{Conn: conn, tunnel: u}
	c.sink, c.reads = net.Pipe()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, c)
	return c, nil
}

// fill makes Write block on the existing connections.
func (u *tunnel) fill() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		c.full.Store(true)
	}
}

type tunnelConn struct {
	net.Conn
	tunnel      *tunnel
	full        atomic.Bool
	sink, reads net.Conn
}

func (c *tunnelConn) Write(p []byte) (int, error) {
	if c.full.Load() {
		return c.sink.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *tunnelConn) SetDeadline(t time.Time) error {
	_ = c.sink.SetDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *tunnelConn) SetWriteDeadline(t time.Time) error {
	_ = c.sink.SetWriteDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *tunnelConn) Close() error {
	<-c.tunnel.shut
	_ = c.sink.Close()
	return c.Conn.Close()
}

// requireEnds waits for the end of a claim.
func (s servers) requireEnds(claim *recipes.Claim) {
	s.Helper()
	select {
	case <-claim.Done():
	case <-time.After(10 * loadTimeout):
		require.Fail(s, "the holder was not notified")
	}
}

func TestHolderIsNotifiedAtItsDeadlineThoughNoCloseReturns(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		link := s.Link()
		u := newTunnel(t, link.Dial)
		defer close(u.shut)
		client := s.loaded(recipes.Options{Dial: u.Dial})
		claim := s.holds(client, "/a")
		time.Sleep(2 * loadTimeout)
		link.Hold(zktest.Both)
		held := time.Now()
		s.requireEnds(claim)
		require.WithinDuration(s, claim.Deadline(), time.Now(), 0)
		require.Less(s, time.Since(held), loadTimeout*3/4)
		require.ErrorIs(s, claim.Err(), recipes.ErrDeadline)

		link.Release()
		claim = s.holds(client, "/a")
		time.Sleep(loadTimeout)
		require.NoError(s, claim.Err())
		began := time.Now()
		client.Close()
		require.LessOrEqual(s, time.Since(began), 3*time.Second)
		require.ErrorIs(s, claim.Err(), recipes.ErrClosed)
	})
}

func TestServerThatTakesNothingMoreIsLeftInTimeThoughNoCloseReturns(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		u := newTunnel(t, s.Dial)
		defer close(u.shut)
		client := s.loaded(recipes.Options{Dial: u.Dial})
		claim := s.holds(client, "/a")
		for range 5 {
			time.Sleep(2*loadTimeout + loadTimeout/13)
			u.fill()
		}
		time.Sleep(2 * loadTimeout)
		require.NoError(s, claim.Err())
		client.Close()
	})
}

// A Dial of the options can be the caller's own, and its Dial of the network underneath
// one without a context.
func TestHolderIsNotifiedAtItsDeadlineThoughNoDialReturns(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		link := s.Link()
		var stuck atomic.Bool
		shut := make(chan struct{})
		client := s.loaded(recipes.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if stuck.Load() {
				<-shut
				ctx = context.WithoutCancel(ctx)
			}
			return link.Dial(ctx, network, address)
		}})
		claim := s.holds(client, "/a")
		time.Sleep(2 * loadTimeout)
		stuck.Store(true)
		link.Reset()
		s.requireEnds(claim)
		require.WithinDuration(s, claim.Deadline(), time.Now(), 0)
		require.ErrorIs(s, claim.Err(), recipes.ErrDeadline)

		stuck.Store(false)
		claim = s.holds(client, "/a")
		time.Sleep(loadTimeout)
		require.NoError(s, claim.Err(), "what was dialled once is of no use any more")
		stuck.Store(true)
		link.Reset()
		time.Sleep(loadTimeout / 6)
		began := time.Now()
		client.Close()
		require.LessOrEqual(s, time.Since(began), 3*time.Second)
		require.ErrorIs(s, claim.Err(), recipes.ErrClosed)
		close(shut)
	})
}
