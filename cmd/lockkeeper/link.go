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

// A link is one client's network path to all servers, which can be partitioned. A
// partition behaves like a network that loses every packet: nothing arrives in either
// direction, neither side gets an error, and new connections are not answered. A link is
// safe for concurrent use.
type link struct {
	dialServer func(ctx context.Context, network, address string) (net.Conn, error) // connects to a server

	mu          sync.Mutex             // guards what follows
	partitioned chan struct{}          // closed by heal; nil while there is no partition
	conns       map[*linkConn]struct{} // open
}

// dial opens a connection on the link. During a partition it waits for heal or the end
// of ctx, as a dial without an answer does.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		if err := l.awaitHealed(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		conn, err := l.dialServer(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if wrapped := l.wrap(conn); wrapped != nil {
			return wrapped, nil
		}
		// Partitioned meanwhile: to the client, the connection was never made.
		if err := conn.Close(); err != nil {
			return nil, err
		}
	}
}

// awaitHealed waits until there is no partition, or ctx ends.
func (l *link) awaitHealed(ctx context.Context) error {
	l.mu.Lock()
	partitioned := l.partitioned
	l.mu.Unlock()
	if partitioned == nil {
		return nil
	}
	select {
	case <-partitioned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wrap puts conn on the link. It returns nil during a partition.
func (l *link) wrap(conn net.Conn) *linkConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partitioned != nil {
		return nil
	}
	if l.conns == nil {
		l.conns = make(map[*linkConn]struct{})
	}
	wrapped := &linkConn{Conn: conn, link: l, closed: make(chan struct{})}
	l.conns[wrapped] = struct{}{}
	return wrapped
}

// partition starts a partition. Data that was not read yet is lost.
func (l *link) partition() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partitioned == nil {
		l.partitioned = make(chan struct{})
	}
	for conn := range l.conns {
		conn.silent.Store(true)
	}
}

// heal ends the partition, and reports whether there was one. It closes the connections
// that were partitioned, because their streams have lost data.
func (l *link) heal() bool {
	l.mu.Lock()
	partitioned := l.partitioned
	l.partitioned = nil
	var silenced []*linkConn
	for conn := range l.conns {
		if conn.silent.Load() {
			silenced = append(silenced, conn)
		}
	}
	l.mu.Unlock()
	if partitioned == nil {
		return false
	}
	close(partitioned)
	for _, conn := range silenced {
		// An error would mean that the client has closed it already.
		_ = conn.Close()
	}
	return true
}

func (l *link) forget(conn *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// A linkConn is a connection on a link.
type linkConn struct {
	net.Conn
	link   *link
	silent atomic.Bool   // it loses all data from now on, because of a partition
	closed chan struct{} // closed by Close
	once   sync.Once     // closes closed
}

// Write writes p. After a partition it discards p and reports success.
func (c *linkConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Read reads into p. After a partition it returns only when this side closes the
// connection, or when this side's deadline passes.
func (c *linkConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		switch {
		case !c.silent.Load():
			return n, err
		case err == nil:
			// The data is lost.
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		default:
			// The other side has closed it, which this side cannot see.
			<-c.closed
			return 0, net.ErrClosed
		}
	}
}

// Close ends the connection.
func (c *linkConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.forget(c)
	return c.Conn.Close()
}
