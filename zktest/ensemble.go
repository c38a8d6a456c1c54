// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// An Ensemble is one or several ZooKeeper servers in this process, that keep
// everything in memory. Safe for concurrent use.
type Ensemble struct {
	opts    Options
	tb      TB // nil outside tests
	servers []*Server
	began   time.Time // ticks count from here
	running sync.WaitGroup
	stop    chan struct{} // closed by Close
	told    *queue[Commit]
	rules   atomic.Pointer[[]*Interceptor] // replaced under mu

	mu       sync.Mutex // guards what follows, and the servers, connections, links and sessions
	closed   bool
	leader   *Server // nil while nobody leads
	epoch    int64   // of the leader
	zxid     int64   // of the last transaction
	log      log
	sessions map[int64]*session
	made     int64              // sessions, ever
	conns    map[*conn]struct{} // whose goroutines run
	traps    traps
	electing *time.Timer
	reaped   time.Time       // when containers were looked at last
	doomed   []*conn         // to be killed once mu is released
	changed  chan struct{}   // closed at each change of a way
	stirred  []chan struct{} // to be closed once mu is released
	said     []func()        // to be logged once mu is released
	accepted int64           // connections, ever
	stepping *time.Timer     // until a leader without a quorum steps down
}

// A TB is what Start needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start starts one server on a free port of 127.0.0.1. It ends with the test: what
// is connected then is closed, and reported in the test's log.
func Start(t TB) *Ensemble {
	t.Helper()
	return StartWith(t, nil)
}

// StartWith is Start with options: several servers, for instance, or none but in
// memory. Options that make no sense end the test.
func StartWith(t TB, opts *Options) *Ensemble {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(&testLog{t: t}, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	}
	e, err := listen(&o, t)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		for _, open := range e.open() {
			t.Logf("zktest: still connected at the end of the test, and closed: %s", open)
		}
		if err := e.Close(); err != nil {
			t.Errorf("zktest: close: %v", err)
		}
	})
	return e
}

// Listen starts an ensemble outside tests. The caller closes it.
func Listen(opts *Options) (*Ensemble, error) { return listen(opts, nil) }

func listen(opts *Options, tb TB) (*Ensemble, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	e := &Ensemble{
		opts:     o,
		tb:       tb,
		began:    time.Now(),
		stop:     make(chan struct{}),
		told:     newQueue[Commit](),
		sessions: make(map[int64]*session),
		conns:    make(map[*conn]struct{}),
		changed:  make(chan struct{}),
		reaped:   time.Now(),
	}
	for i := range o.Servers {
		e.servers = append(e.servers, newServer(e, i))
	}
	if err := e.listen(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.mu.Lock()
	e.lead(e.servers[0])
	e.unlock()
	e.running.Go(e.tick)
	if o.OnCommit != nil {
		e.running.Go(e.tellCommits)
	}
	return e, nil
}

func (e *Ensemble) newTree() *tree.Tree {
	t := tree.New()
	t.TTL = e.opts.TTLNodes
	return t
}

// listen opens the servers' sockets, or names them where there are none.
func (e *Ensemble) listen() error {
	host, port, err := splitAddr(e.opts.Addr)
	if err != nil {
		return err
	}
	for i, s := range e.servers {
		if e.opts.InMemory {
			s.addr = fmt.Sprintf("zktest-%d:2181", i)
			continue
		}
		at := 0
		if port != 0 {
			at = port + i
		}
		l, err := s.bind(net.JoinHostPort(host, strconv.Itoa(at)))
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		e.mu.Lock()
		s.attend(l)
		e.unlock()
	}
	return nil
}

// Servers are the addresses of the servers, host:port each, for zk.Connect and
// recipes.Connect.
func (e *Ensemble) Servers() []string {
	addrs := make([]string, 0, len(e.servers))
	for _, s := range e.servers {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Server is the i-th server. One that does not exist ends the test, or panics
// outside tests.
func (e *Ensemble) Server(i int) *Server {
	if i < 0 || i >= len(e.servers) {
		e.fatal("server %d: there are %d, counted from 0", i, len(e.servers))
		return nil
	}
	return e.servers[i]
}

// Leader is the server that leads, nil while none does.
func (e *Ensemble) Leader() *Server {
	e.mu.Lock()
	defer e.unlock()
	return e.leader
}

// Dial connects to the server of that address, in memory: it is what
// recipes.Options.Dial takes.
func (e *Ensemble) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return e.dial(ctx, nil, network, address)
}

// Dialer is Dial in the form that zk.WithDialer takes.
func (e *Ensemble) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return dialer(e.Dial)
}

func dialer(dial func(context.Context, string, string) (net.Conn, error)) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

func (e *Ensemble) dial(ctx context.Context, l *Link, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: memoryAddr(address), Err: err}
	}
	var s *Server
	for _, known := range e.servers {
		if known.addr == address {
			s = known
		}
	}
	if s == nil {
		return fail(fmt.Errorf("no server of this ensemble, which has %s", strings.Join(e.Servers(), ", ")))
	}
	for {
		theirs, changed, err := s.admit(l)
		switch {
		case err != nil:
			return fail(err)
		case theirs != nil:
			return theirs, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

// admit makes a connection in memory, unless what is held keeps it from being made:
// then changed is closed at the next change.
func (s *Server) admit(l *Link) (theirs net.Conn, changed <-chan struct{}, err error) {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	w := s.way
	if l != nil {
		w.held |= l.way.held
		w.refuse = w.refuse || l.way.refuse
	}
	switch {
	case e.closed:
		return nil, nil, syscall.ECONNREFUSED
	case w.held != 0:
		return nil, e.changed, nil
	case !s.running || w.refuse:
		return nil, nil, syscall.ECONNREFUSED
	}
	theirs, ours := net.Pipe()
	s.accept(ours, l, "memory")
	return theirs, nil, nil
}

// memoryAddr is the address of a server that is reached in memory.
type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// open describes the connections that are open.
func (e *Ensemble) open() []string {
	e.mu.Lock()
	defer e.unlock()
	var all []string
	for c := range e.conns {
		if c.over {
			continue
		}
		id := int64(0)
		if c.session != nil {
			id = c.session.id
		}
		all = append(all, fmt.Sprintf("session 0x%x of %s at %s", uint64(id), c.remote, c.server.addr)) //nolint:gosec // as ZooKeeper prints it
	}
	return all
}

// Close ends the servers, and what is connected to them. It returns once all of
// their goroutines have ended.
func (e *Ensemble) Close() error {
	e.mu.Lock()
	if e.closed {
		e.unlock()
		e.running.Wait()
		return nil
	}
	e.closed = true
	for _, t := range []*time.Timer{e.electing, e.stepping} {
		if t != nil {
			t.Stop()
		}
	}
	var listeners []net.Listener
	for _, s := range e.servers {
		listeners = append(listeners, s.quit()...)
	}
	for c := range e.conns {
		e.abort(c, nil)
	}
	e.stirred = append(e.stirred, e.changed)
	e.changed = make(chan struct{})
	e.unlock()
	close(e.stop)

	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	if e.opts.OnCommit != nil {
		e.told.put(Commit{}, 0, 0) // the end
	}
	e.running.Wait()
	e.told.close()
	return errors.Join(errs...)
}

// fatal ends the test, or panics where there is none: for values that make no sense.
func (e *Ensemble) fatal(format string, args ...any) {
	if e.tb != nil {
		e.tb.Helper()
		e.tb.Fatalf("zktest: "+format, args...)
		return
	}
	panic(fmt.Sprintf("zktest: "+format, args...))
}

func (e *Ensemble) mustNotBeNegative(d time.Duration) {
	if d < 0 {
		e.fatal("delay %v is negative", d)
	}
}

// testLog has what is logged appear in a test's log.
type testLog struct{ t TB }

func (l *testLog) Write(p []byte) (int, error) {
	l.t.Logf("zktest: %s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// withoutTime drops what the test's log has already.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}
