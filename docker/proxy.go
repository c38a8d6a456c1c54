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

// dialBound limits the proxy's own dial to the server.
const dialBound = 5 * time.Second

// Proxy forwards connections of clients to one server, in the process of the test,
// and injects network faults. Without a fault it forwards bytes unchanged.
//
// Faults accumulate until Heal, and affect existing connections as well as new ones. They
// are in force when the method returns; bytes that were being written at that moment may
// still arrive. All methods are safe for concurrent use.
type Proxy struct {
	upstream string
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	loss     atomic.Pointer[loss] // not yet assigned to a request

	mu       sync.Mutex // guards the rest and the links' state
	drop     Direction
	delay    map[Direction]time.Duration
	hang     bool
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
		if l.ended&ToServer == 0 {
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

// Drop drops every byte in the given direction, as a network partition does: connections stay
// open, and the end of a connection is dropped as well.
func (p *Proxy) Drop(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop |= d
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

// Hang makes the proxy accept connections and never answer: it does not forward new
// connections, and drops every byte of existing ones.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = true
}

// Refuse resets the existing connections, and new ones immediately. The client's dial itself
// may succeed, because the proxy keeps its port.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Reset()
}

// Heal ends all faults. It resets connections that have lost bytes, because the receiver would
// misread the bytes after the gap.
func (p *Proxy) Heal() {
	p.loss.Store(nil)
	p.mu.Lock()
	p.drop, p.hang, p.refuse = 0, false, false
	clear(p.delay)
	p.mu.Unlock()
	p.end(func(l *link) bool { return l.gaps != 0 })
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
		if err != nil { // such as too many open files: clients wait until it passes
			select {
			case <-p.ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		p.running.Go(func() { p.serve(conn) })
	}
}

// serve forwards one connection, and returns when it has ended.
func (p *Proxy) serve(client net.Conn) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	p.mu.Lock()
	p.accepted++
	refuse, hang := p.refuse || p.ctx.Err() != nil, p.hang
	if hang {
		l.gaps = Both // nothing that the client sends is ever answered
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
	if !hang && !l.dial() {
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
