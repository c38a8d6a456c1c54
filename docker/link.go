// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one client's connection through a Proxy.
type link struct {
	proxy  *Proxy
	client net.Conn

	ending sync.Once
	done   chan struct{} // closed by end

	awaited atomic.Pointer[awaited]

	server net.Conn  // guarded by proxy.mu; nil while not dialled, and for ever when muted
	dirty  Direction // guarded by proxy.mu: where bytes were lost
	gone   Direction // guarded by proxy.mu: whose end was lost
}

// piece is the result of one read; with err, the end of the connection.
type piece struct {
	bytes []byte
	err   error
	due   time.Time
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
	case <-l.done: // it ended meanwhile, and may have known only of the client
		reset(server)
		return false
	default:
		return true
	}
}

// end closes both sides, once: with a TCP reset or in good order.
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
				_ = conn.Close() // the other side has ended
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

// pump forwards one direction. Its reader never waits for the other side, so that it
// records when bytes arrived. Its writer delays, drops or forwards them.
func (l *link) pump(running *sync.WaitGroup, way Direction, from, to net.Conn) {
	if from == nil {
		return
	}
	pieces := make(chan piece, 1024)
	running.Go(func() { l.read(way, from, pieces) })
	running.Go(func() { l.deliver(way, to, pieces) })
}

func (l *link) read(way Direction, from net.Conn, pieces chan<- piece) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		pc := piece{bytes: append([]byte(nil), buf[:n]...), err: err, due: time.Now().Add(l.proxy.delayOf(way))}
		select {
		case pieces <- pc:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

func (l *link) deliver(way Direction, to net.Conn, pieces <-chan piece) {
	flow := flow{link: l, way: way, to: to}
	for {
		var pc piece
		select {
		case pc = <-pieces:
		case <-l.done:
			return
		}
		if wait := time.Until(pc.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.done:
				return
			}
		}
		if l.lost(way, pc.err != nil) {
			if pc.err != nil {
				return
			}
			continue
		}
		if len(pc.bytes) > 0 && !flow.pass(pc.bytes) {
			l.end(true)
			return
		}
		if pc.err != nil {
			l.end(!errors.Is(pc.err, io.EOF))
			return
		}
	}
}

// lost decides whether bytes in this direction are lost, and records that under the same
// lock: Pass must not come in between, because it would keep a connection with a gap. A
// direction that has lost bytes loses all later ones.
func (l *link) lost(way Direction, ended bool) bool {
	p := l.proxy
	p.mu.Lock()
	lost := p.mute || (p.swallow|l.dirty)&way != 0
	finished := false
	if lost {
		l.dirty |= way
		if ended {
			l.gone |= way
			finished = l.gone == Both || l.server == nil
		}
	}
	p.mu.Unlock()
	if finished {
		l.end(false)
	}
	return lost
}
