// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A network has an address for each server of an ensemble, and forwards to the server over a link, whose faults hit one contender
// only.
type network struct {
	link      *zktest.Link
	listeners []net.Listener
	running   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	conns  map[net.Conn]struct{} // of contenders
}

// newNetwork opens the addresses. The caller closes the network.
func newNetwork(ctx context.Context, link *zktest.Link, servers []string) (*network, error) {
	n := &network{link: link, conns: map[net.Conn]struct{}{}}
	for _, server := range servers {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			n.close()
			return nil, fmt.Errorf("open a network to %s: %w", server, err)
		}
		n.listeners = append(n.listeners, listener)
		n.running.Go(func() { n.serve(listener, server) })
	}
	return n, nil
}

// addresses returns the addresses in the order of the servers.
func (n *network) addresses() (all []string) {
	for _, l := range n.listeners {
		all = append(all, l.Addr().String())
	}
	return all
}

func (n *network) serve(listener net.Listener, server string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // the network is closed
		}
		if n.keep(conn) {
			n.running.Go(func() { n.forward(conn, server) })
		}
	}
}

// forward copies in both directions until one side closes. During a partition the link accepts nothing, and the contender has a
// connection that does not answer.
func (n *network) forward(conn net.Conn, server string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer n.drop(conn)
	first := make(chan []byte, 1)
	n.running.Go(func() { // a contender that gives up during the dial ends it
		request := make([]byte, 4096)
		k, err := conn.Read(request)
		if err != nil {
			cancel()
		}
		first <- request[:k]
	})
	up, err := n.link.Dial(ctx, "tcp", server)
	if err != nil {
		_ = conn.Close() // the reader above ends
		<-first
		return
	}
	n.running.Go(func() {
		if _, err := up.Write(<-first); err == nil {
			_, _ = io.Copy(up, conn)
		}
		_ = up.Close() // a partition holds the end of the connection
	})
	_, _ = io.Copy(conn, up)
	_ = up.Close()
}

// keep registers a connection, and reports whether the network is open.
func (n *network) keep(conn net.Conn) bool {
	n.mu.Lock()
	open := !n.closed
	if open {
		n.conns[conn] = struct{}{}
	}
	n.mu.Unlock()
	if !open {
		_ = conn.Close()
	}
	return open
}

// drop closes a connection.
func (n *network) drop(conn net.Conn) {
	n.mu.Lock()
	delete(n.conns, conn)
	n.mu.Unlock()
	_ = conn.Close() // both sides may have closed it
}

// close ends all connections, and waits for the goroutines that serve them.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, l := range n.listeners {
		_ = l.Close() // nothing depends on it
	}
	n.link.Release()
	n.link.Reset()
	for conn := range conns {
		_ = conn.Close() // both sides may have closed it
	}
	n.running.Wait()
}
