// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// A cut is a switch in one client's way to all servers. Severed, it behaves as a
// network that loses every packet: nothing arrives in either direction, nobody is
// told, and new connections are not answered. Safe for concurrent use.
type cut struct {
	reach func(ctx context.Context, network, address string) (net.Conn, error) // a server, where nothing is cut

	mu      sync.Mutex            // guards what follows
	severed chan struct{}         // closed by mend; nil while everything passes
	conns   map[*cutConn]struct{} // open
}

// dial makes a connection that sever can cut. While severed it waits for mend or
// the end of ctx, as a dial that nobody answers does.
func (c *cut) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		if err := c.passable(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		conn, err := c.reach(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if wrapped := c.adopt(conn); wrapped != nil {
			return wrapped, nil
		}
		// Severed meanwhile: as far as the client knows it was never made.
		if err := conn.Close(); err != nil {
			return nil, err
		}
	}
}

// passable waits until the cut is mended, or ctx ends.
func (c *cut) passable(ctx context.Context) error {
	c.mu.Lock()
	severed := c.severed
	c.mu.Unlock()
	if severed == nil {
		return nil
	}
	select {
	case <-severed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// adopt wraps conn; nil while severed.
func (c *cut) adopt(conn net.Conn) *cutConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.severed != nil {
		return nil
	}
	if c.conns == nil {
		c.conns = make(map[*cutConn]struct{})
	}
	wrapped := &cutConn{Conn: conn, cut: c, closed: make(chan struct{})}
	c.conns[wrapped] = struct{}{}
	return wrapped
}

// sever cuts all connections. What was not read yet is lost.
func (c *cut) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.severed == nil {
		c.severed = make(chan struct{})
	}
	for conn := range c.conns {
		conn.silent.Store(true)
	}
}

// mend lets new connections through, and says whether there was anything to mend.
// Those that were cut have a hole in their streams: they are closed.
func (c *cut) mend() bool {
	c.mu.Lock()
	severed := c.severed
	c.severed = nil
	var holed []*cutConn
	for conn := range c.conns {
		if conn.silent.Load() {
			holed = append(holed, conn)
		}
	}
	c.mu.Unlock()
	if severed == nil {
		return false
	}
	close(severed)
	for _, conn := range holed {
		// Its error would be that the client was faster.
		_ = conn.Close()
	}
	return true
}

func (c *cut) forget(conn *cutConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// A cutConn is a connection through a cut.
type cutConn struct {
	net.Conn
	cut    *cut
	silent atomic.Bool   // cut, for good
	closed chan struct{} // closed by Close
	once   sync.Once     // guards closing it
}

// Write pretends, when cut, that p is on its way.
func (c *cutConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Read returns nothing, when cut, but what this side does to the connection: it
// closes it, or its own deadline passes.
func (c *cutConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		switch {
		case !c.silent.Load():
			return n, err
		case err == nil:
			// What arrived is lost.
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		default:
			// The other side has ended it, and this one cannot have heard of it.
			<-c.closed
			return 0, net.ErrClosed
		}
	}
}

// Close ends the connection.
func (c *cutConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.cut.forget(c)
	return c.Conn.Close()
}
