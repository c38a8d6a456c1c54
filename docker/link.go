// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// link is one client's connection through a Proxy.
type link struct {
	proxy  *Proxy
	client net.Conn

	ending sync.Once
	done   chan struct{} // closed by end

	awaited atomic.Pointer[awaited]

	server net.Conn  // guarded by proxy.mu; nil before dial, and always if the proxy hangs
	gaps   Direction // guarded by proxy.mu: where bytes were dropped
	ended  Direction // guarded by proxy.mu: where the end was dropped
}

// dial connects to the server. If that fails, it resets the client's connection.
func (l *link) dial() bool {
	ctx, cancel := context.WithTimeout(l.proxy.ctx, dialBound)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.proxy.upstream)
	if err != nil {
		l.end(true)
		return false
	}
	l.proxy.mu.Lock()
	l.server = server
	l.proxy.mu.Unlock()
	select {
	case <-l.done: // it has ended meanwhile, perhaps before it had the server's connection
		reset(server)
		return false
	default:
		return true
	}
}

// end closes both sides, once: with a TCP reset if broken, otherwise regularly.
func (l *link) end(broken bool) {
	l.ending.Do(func() {
		close(l.done)
		l.proxy.mu.Lock()
		server := l.server
		l.proxy.mu.Unlock()
		for _, conn := range []net.Conn{l.client, server} {
			switch {
			case conn == nil:
			case broken:
				reset(conn)
			default:
				_ = conn.Close() // nothing depends on its error
			}
		}
	})
}

// reset closes a connection so that its peer sees a reset. Errors mean that it is
// closed already.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// drops reports whether bytes or the end of this direction are to be dropped, and records it
// under the same lock: Heal between the two would not reset a connection with a gap. After
// the first dropped bytes, a direction drops everything.
func (l *link) drops(way Direction, end bool) bool {
	p := l.proxy
	p.mu.Lock()
	dropped := p.hang || (p.drop|l.gaps)&way != 0
	finished := false
	if dropped {
		l.gaps |= way
		if end {
			l.ended |= way
			finished = l.ended == Both || l.server == nil
		}
	}
	p.mu.Unlock()
	if finished {
		l.end(false)
	}
	return dropped
}
