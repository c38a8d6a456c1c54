// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

func newServer(e *Ensemble, id int) *Server {
	s := &Server{ensemble: e, id: id, running: true}
	s.tree = e.newTree()
	s.reset()
	return s
}

// reset discards the state that ends with a server process.
func (s *Server) reset() {
	s.data, s.children = newWatchTable(), newWatchTable()
	s.conns, s.waiting = make(map[*conn]struct{}), make(map[*conn]struct{})
	s.touched = make(map[int64]time.Duration)
	s.pending = nil
	s.total = traffic{}
}

// ID returns the server's id in its ensemble, counted from 1, as ZooKeeper's myid is.
func (s *Server) ID() int { return s.id }

// Addr returns the server's address, host:port. It does not change when the server is
// started again.
func (s *Server) Addr() string { return s.addr }

// bind opens a socket at the address.
func (s *Server) bind(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("zktest: listen for server %d: %w", s.id, err)
	}
	return l, nil
}

// listenOn makes the server accept connections from a listener. The caller holds the
// ensemble's mu.
func (s *Server) listenOn(l net.Listener) {
	s.listener = l
	s.ensemble.running.Go(func() { s.acceptLoop(l) })
}

func (s *Server) acceptLoop(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the listener was closed
		}
		s.acceptSocket(c)
	}
}

func (s *Server) acceptSocket(c net.Conn) {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	switch {
	case s.ensemble.closed || !s.running || s.impairment.refuse:
		s.ensemble.running.Go(func() { _ = c.Close() })
	default:
		s.accept(c, nil, c.RemoteAddr().String())
	}
}

// accept starts serving a connection. The caller holds the ensemble's mu.
func (s *Server) accept(network net.Conn, l *Link, remote string) {
	c := &conn{
		server: s, link: l, net: s.ensemble.secured(network), socket: network, remote: remote, unanswered: s.hung,
		in: newQueue[inbound](), out: newQueue[[]byte](), progress: sync.NewCond(&s.ensemble.mu),
	}
	c.touch()
	s.ensemble.accepted++
	c.number = s.ensemble.accepted
	c.identities = []tree.Identity{{Scheme: "ip", ID: hostOf(remote)}, {Scheme: "world", ID: "anyone"}}
	s.ensemble.conns[c] = struct{}{}
	s.conns[c] = struct{}{}
	imp := c.impairment()
	c.in.hold(imp.held&ToServer != 0)
	c.out.hold(imp.held&ToClient != 0)
	c.slow.Store(int64(imp.delay))
	s.ensemble.running.Go(c.serve)
}

// secured returns a connection over which the servers speak TLS, if the options ask for that.
func (e *Ensemble) secured(network net.Conn) net.Conn {
	if e.opts.TLS == nil {
		return network
	}
	return tls.Server(network, e.opts.TLS)
}

// hostOf returns the host of an address; connections in memory count as local.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}

// drop removes a connection that has ended from the server; its goroutines may still
// run. The caller holds the ensemble's mu.
func (s *Server) drop(c *conn) {
	delete(s.conns, c)
	delete(s.waiting, c)
	s.data.forget(c)
	s.children.forget(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// forget removes a connection from the ensemble when its goroutines have ended.
func (e *Ensemble) forget(c *conn) {
	e.mu.Lock()
	defer e.unlock()
	delete(e.conns, c)
	c.end(nil)
}

// dropAll ends all of the server's connections. The caller holds mu.
func (s *Server) dropAll(why error) {
	for c := range s.conns {
		c.finish(why)
	}
}

// shutDown ends the server as kill -9 does. The caller holds mu, and closes the returned
// listeners after it has released mu.
func (s *Server) shutDown() []net.Listener {
	s.running, s.serving = false, false
	s.dropAll(errors.New("server stopped"))
	s.reset()
	s.keepServing()
	if s.lagTimer != nil {
		s.lagTimer.Stop()
	}
	s.paused, s.replaced, s.remembered = false, false, nil
	s.isolated = len(s.ensemble.servers) > 1 && s.partition != none
	if s.listener == nil {
		return nil
	}
	l := s.listener
	s.listener = nil
	return []net.Listener{l}
}

// Kill ends the server immediately, as kill -9 does: its connections end, and new ones are
// refused. If it was the leader, the other servers elect another. A partition lasts.
func (s *Server) Kill(context.Context) error {
	e := s.ensemble
	e.mu.Lock()
	if !s.running || e.closed {
		e.unlock()
		return nil
	}
	listeners := s.shutDown()
	e.applyImpairments() // the end of a paused server reaches its clients
	if e.leader == s {
		e.elect()
	} else {
		e.checkQuorum()
	}
	e.unlock()
	for _, l := range listeners {
		// Its error only says that the listener is closed.
		_ = l.Close()
	}
	return nil
}

// Start starts a killed server again at the same address, in an ensemble of one with the
// data that it had, otherwise with the leader's. It fails if the port is taken. It does not
// wait until the server serves: WaitServing does.
func (s *Server) Start(ctx context.Context) error { return s.start(ctx, false) }

// Wipe kills the server and starts it without data. It then copies the leader's data,
// unless it is the only server that runs: in that case all nodes and sessions are lost.
func (s *Server) Wipe() error {
	ctx := context.Background()
	return errors.Join(s.Kill(ctx), s.start(ctx, true))
}

func (s *Server) start(ctx context.Context, wiped bool) error {
	e := s.ensemble
	e.mu.Lock()
	running := s.running
	e.unlock()
	if running {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("zktest: start server %d: %w", s.id, err) }
	var l net.Listener
	if !e.opts.InMemory {
		var err error
		if l, err = s.bind(ctx, s.addr); err != nil {
			return fail(err)
		}
	}
	if err := s.run(l, wiped); err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return fail(err)
	}
	return nil
}

// run marks the server as running, with its listener if there is one, and lets it join.
func (s *Server) run(l net.Listener, wiped bool) error {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	switch {
	case e.closed:
		return net.ErrClosed
	case s.running:
		return errors.New("already running")
	}
	s.running = true
	if l != nil {
		s.listenOn(l)
	}
	if wiped {
		s.tree, s.zxid, s.next = e.newTree(), 0, 0
		alone := true
		for _, other := range e.servers {
			alone = alone && (other == s || !other.running)
		}
		if alone {
			e.loseAll()
		}
	}
	if !s.isolated {
		e.join(s)
	}
	return nil
}

// Refuse sets whether the server refuses new connections.
func (s *Server) Refuse(on bool) { s.set(func() { s.impairment.refuse = on }) }

// Hang sets whether the server accepts new connections and does not answer them. A
// connection made meanwhile is never answered, not even afterwards.
func (s *Server) Hang(on bool) { s.set(func() { s.hung = on }) }

// Hold keeps frames in the direction from arriving, until Release: see Link.Hold. On a
// socket new connections are still made, because the operating system makes them.
func (s *Server) Hold(d Direction) { s.set(func() { s.impairment.held |= d & Both }) }

// Release releases all held frames, in order.
func (s *Server) Release() { s.set(func() { s.impairment.held = 0 }) }

// Delay delays each frame by d, in both directions. A negative d ends the test, or
// panics outside tests.
func (s *Server) Delay(d time.Duration) {
	s.ensemble.mustNotBeNegative(d)
	s.set(func() { s.impairment.delay = d })
}

// set changes a setting of the server that its connections depend on.
func (s *Server) set(change func()) {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	change()
	s.ensemble.applyImpairments()
}
