// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// A Server is one server of an ensemble. Safe for concurrent use.
type Server struct {
	ensemble *Ensemble
	index    int
	addr     string

	// Guarded by the ensemble's mu.
	listener net.Listener // nil where there is none
	running  bool         // it was not stopped
	serving  bool         // it takes connections
	cut      bool         // nothing passes between it and the other servers
	deposed  bool         // it was the leader when it was cut
	mute     bool         // what connects is never answered
	way      way
	lag      time.Duration
	lagTimer *time.Timer
	quitting *time.Timer // until it stops serving, for it is cut off
	cutIn    int64       // the epoch in which it was cut
	tree     *tree.Tree
	zxid     int64 // of the last transaction that it has applied
	next     int64 // the index of the log's entry that it applies next
	data     *watchTable
	children *watchTable
	conns    map[*conn]struct{} // that it serves
	pending  []*request         // for the leader, while cut
	touched  map[int64]struct{} // sessions that were heard, to be told to the leader
	// remembered are the sessions that a deposed leader still takes to be alive.
	remembered map[int64]*session
	waiting    map[*conn]struct{} // with requests that were not answered yet
	total      traffic            // since the process began
}

func newServer(e *Ensemble, index int) *Server {
	s := &Server{ensemble: e, index: index, running: true}
	s.tree = e.newTree()
	s.reset()
	return s
}

// reset forgets what goes with a process.
func (s *Server) reset() {
	s.data, s.children = newWatchTable(), newWatchTable()
	s.conns, s.waiting = make(map[*conn]struct{}), make(map[*conn]struct{})
	s.touched = make(map[int64]struct{})
	s.pending = nil
	s.total = traffic{}
}

// Addr is the server's address, host:port. It stays when the server is started again.
func (s *Server) Addr() string { return s.addr }

// bind opens the server's socket, and returns what is left of the address's choice.
func (s *Server) bind(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("zktest: server %d: %w", s.index, err)
	}
	return l, nil
}

// attend has the server accept what comes. The caller holds the ensemble's mu.
func (s *Server) attend(l net.Listener) {
	s.listener = l
	s.ensemble.running.Go(func() { s.acceptFrom(l) })
}

func (s *Server) acceptFrom(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // it was closed
		}
		s.welcome(c)
	}
}

func (s *Server) welcome(c net.Conn) {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	switch {
	case s.ensemble.closed || !s.running || s.way.refuse:
		s.ensemble.running.Go(func() { _ = c.Close() })
	default:
		s.accept(c, nil, c.RemoteAddr().String())
	}
}

// accept starts serving a connection. The caller holds the ensemble's mu.
func (s *Server) accept(network net.Conn, l *Link, remote string) {
	c := &conn{
		server: s, link: l, net: network, remote: remote, mute: s.mute,
		in: newQueue[inbound](), out: newQueue[[]byte](), eased: sync.NewCond(&s.ensemble.mu),
	}
	c.touch()
	s.ensemble.accepted++
	c.number = s.ensemble.accepted
	c.who = []tree.Identity{{Scheme: "ip", ID: hostOf(remote)}, {Scheme: "world", ID: "anyone"}}
	s.ensemble.conns[c] = struct{}{}
	s.conns[c] = struct{}{}
	w := c.ways()
	c.in.hold(w.held&ToServer != 0)
	c.out.hold(w.held&ToClient != 0)
	c.slow.Store(int64(w.delay))
	s.ensemble.running.Go(c.serve)
}

// hostOf is the host of an address; what is connected in memory counts as local.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}

// drop forgets a connection that has ended, but for its goroutines. The caller holds
// the ensemble's mu.
func (s *Server) drop(c *conn) {
	delete(s.conns, c)
	delete(s.waiting, c)
	s.data.forget(c)
	s.children.forget(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// forget is called when a connection's goroutines have ended.
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

// quit ends the server as kill -9 does. What it returns is to be closed without mu,
// which the caller holds.
func (s *Server) quit() []net.Listener {
	s.running, s.serving = false, false
	s.dropAll(errors.New("server stopped"))
	s.reset()
	s.stay()
	if s.lagTimer != nil {
		s.lagTimer.Stop()
	}
	s.cut, s.deposed, s.remembered = false, false, nil
	if s.listener == nil {
		return nil
	}
	l := s.listener
	s.listener = nil
	return []net.Listener{l}
}

// Stop ends the server at once, as kill -9 does: its connections end, and new ones
// are refused. The others elect a leader if it was theirs. Stopping a server that is
// stopped does nothing.
func (s *Server) Stop() {
	e := s.ensemble
	e.mu.Lock()
	if !s.running || e.closed {
		e.unlock()
		return
	}
	listeners := s.quit()
	if e.leader == s {
		e.elect()
	} else {
		e.reckon()
	}
	e.unlock()
	for _, l := range listeners {
		// What it says is that it is closed.
		_ = l.Close()
	}
}

// Start starts the server again, at the same address and with the data that it had:
// its disk's in an ensemble of one, else the leader's.
func (s *Server) Start() error { return s.start(false) }

// Wipe stops the server and starts it with an empty disk. It gets the leader's data
// then, unless it is the only server that runs: then all is lost, the sessions too.
func (s *Server) Wipe() error {
	s.Stop()
	return s.start(true)
}

func (s *Server) start(wiped bool) error {
	e := s.ensemble
	fail := func(err error) error { return fmt.Errorf("zktest: start server %d: %w", s.index, err) }
	var l net.Listener
	if !e.opts.InMemory {
		var err error
		if l, err = s.bind(s.addr); err != nil {
			return fail(err)
		}
	}
	if err := s.begin(l, wiped); err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return fail(err)
	}
	return nil
}

// begin has the server run, with its socket if there is one.
func (s *Server) begin(l net.Listener, wiped bool) error {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	switch {
	case e.closed:
		return net.ErrClosed
	case s.running:
		return errors.New("it runs")
	}
	s.running = true
	if l != nil {
		s.attend(l)
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
	e.join(s)
	return nil
}

// Refuse has the server refuse new connections, or not any more.
func (s *Server) Refuse(on bool) { s.set(func() { s.way.refuse = on }) }

// Mute has the server accept new connections and never answer them, or not any more:
// those that were made meanwhile stay unanswered.
func (s *Server) Mute(on bool) { s.set(func() { s.mute = on }) }

// Hold keeps what goes in the direction from arriving, until Release: see Link.Hold.
// Of a socket, connections are made all the same: that is the operating system's work.
func (s *Server) Hold(d Direction) { s.set(func() { s.way.held |= d & Both }) }

// Release lets everything that was held pass, in its order.
func (s *Server) Release() { s.set(func() { s.way.held = 0 }) }

// Delay has each frame arrive that much later, in both directions.
func (s *Server) Delay(d time.Duration) {
	s.ensemble.mustNotBeNegative(d)
	s.set(func() { s.way.delay = d })
}

// set changes something about the server that connections have to follow.
func (s *Server) set(change func()) {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	change()
	s.ensemble.rearrange()
}
