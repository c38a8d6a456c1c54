// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Direction is a direction of the traffic through a Proxy.
type Direction uint8

const (
	// ToServer is the traffic from the client to the server.
	ToServer Direction = 1 << iota
	// ToClient is the traffic from the server to the client.
	ToClient
	// Both is both directions.
	Both = ToServer | ToClient
)

// dialBound is the timeout of the proxy's dial to the server.
const dialBound = 5 * time.Second

// Proxy forwards connections of clients to one server, in the process of the test,
// and injects network faults. Without a fault it passes bytes on unchanged.
//
// Faults accumulate until Pass heals all of them, and affect existing connections as
// well as new ones. They are in force when the method returns; a piece that was being
// written at that moment may still arrive. All methods are safe for concurrent use.
type Proxy struct {
	upstream string
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	loss     atomic.Pointer[loss]

	mu       sync.Mutex // guards the rest and the links' state
	swallow  Direction
	delay    map[Direction]time.Duration
	mute     bool
	refuse   bool
	links    map[*link]struct{}
	accepted int
}

// NewProxy listens on a free port of 127.0.0.1 for connections to upstream, a
// host:port. The caller must Close it.
func NewProxy(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", upstream, err)
	}
	p := &Proxy{upstream: upstream, listener: l, delay: make(map[Direction]time.Duration), links: make(map[*link]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the host:port that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections, stops listening and returns once all goroutines of
// the proxy have ended.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	p.Reset()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) { // closed twice
		return nil
	}
	return err
}

// Connections returns how many client connections are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.gone&ToServer == 0 {
			n++
		}
	}
	return n
}

// Accepted returns how many connections clients have made since NewProxy, the
// refused ones included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Swallow drops every byte in the given direction, as a network partition does:
// connections stay open, and the end of a connection is lost as well.
func (p *Proxy) Swallow(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow |= d
}

// Delay delays all bytes in the given direction by the given time, in order. Zero
// ends the delay, for bytes that are sent from then on.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range []Direction{ToServer, ToClient} {
		if d&way != 0 {
			p.delay[way] = by
		}
	}
}

// Reset ends every connection with a TCP reset on both sides. It accepts new ones.
func (p *Proxy) Reset() {
	p.end(func(*link) bool { return true })
}

// Mute makes the proxy behave as a server that accepts connections and never answers:
// new connections are not forwarded, and existing ones become silent in both directions.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// Refuse resets existing connections, and new ones as soon as they are accepted. The
// client's dial itself may succeed, because the proxy keeps its port.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Reset()
}

// Pass heals all faults. It resets connections that have lost bytes, because the
// receiver would misread the bytes after a gap.
func (p *Proxy) Pass() {
	p.loss.Store(nil)
	p.mu.Lock()
	p.swallow, p.mute, p.refuse = 0, false, false
	clear(p.delay)
	p.mu.Unlock()
	p.end(func(l *link) bool { return l.dirty != 0 })
}

// end resets the links for which which returns true. It calls which with p.mu held.
func (p *Proxy) end(which func(*link) bool) {
	p.mu.Lock()
	var ending []*link
	for l := range p.links {
		if which(l) {
			ending = append(ending, l)
			delete(p.links, l)
		}
	}
	p.mu.Unlock()
	for _, l := range ending {
		l.end(true)
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if p.ctx.Err() != nil {
			if err == nil {
				reset(conn)
			}
			return
		}
		if err != nil { // for example too many open files, which may be temporary: clients wait
			select {
			case <-p.ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// serve owns one connection from its first byte to its last.
func (p *Proxy) serve(client net.Conn) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	p.mu.Lock()
	p.accepted++
	refuse, mute := p.refuse || p.ctx.Err() != nil, p.mute
	if mute {
		l.dirty = Both // its requests are never answered
	}
	if !refuse {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if refuse {
		reset(client)
		return
	}
	defer func() {
		l.end(false)
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if !mute && !l.dial() {
		return
	}
	var running sync.WaitGroup
	l.pump(&running, ToServer, client, l.server)
	l.pump(&running, ToClient, l.server, client)
	running.Wait()
}

func (p *Proxy) delayOf(way Direction) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay[way]
}
