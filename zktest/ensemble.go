// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// Start is Run for tests: the ensemble logs to the test, and is closed when the test ends;
// the connections that are still open are reported in the test's log. Invalid options end
// the test.
func Start(t TB, opts *Options) *Ensemble {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(&testLog{t: t}, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	}
	e, err := run(context.Background(), &o, t)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		for _, open := range e.openConns() {
			t.Logf("zktest: close: %s: still connected at the end of the test", open)
		}
		if err := e.Close(); err != nil {
			t.Errorf("zktest: close: %v", err)
		}
	})
	return e
}

// Run starts an ensemble and returns once it serves. A nil opts means one server, on a free
// port of 127.0.0.1. The caller closes it; ctx bounds the start only.
func Run(ctx context.Context, opts *Options) (*Ensemble, error) { return run(ctx, opts, nil) }

func run(ctx context.Context, opts *Options, tb TB) (*Ensemble, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Ensemble{
		opts:     o,
		tb:       tb,
		began:    time.Now(),
		stop:     make(chan struct{}),
		commits:  newQueue[Commit](),
		sessions: make(map[int64]*session),
		conns:    make(map[*conn]struct{}),
		changed:  make(chan struct{}),
		checked:  time.Now(),
	}
	for i := range o.Servers {
		e.servers = append(e.servers, newServer(e, i+1))
	}
	if err := e.listen(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.mu.Lock()
	e.lead(e.servers[0])
	e.unlock()
	e.running.Go(e.tick)
	if o.OnCommit != nil {
		e.running.Go(e.reportCommits)
	}
	return e, nil
}

func (e *Ensemble) newTree() *tree.Tree {
	t := tree.New()
	t.TTL, t.SASL, t.X509 = e.opts.TTLNodes, len(e.opts.Users) > 0, e.opts.TLS != nil
	return t
}

// listen opens the servers' sockets, or sets their addresses if they are in memory.
func (e *Ensemble) listen(ctx context.Context) error {
	host, port, err := splitAddr(e.opts.Addr)
	if err != nil {
		return err
	}
	for i, s := range e.servers {
		if e.opts.InMemory {
			s.addr = fmt.Sprintf("zktest-%d:2181", s.id)
			continue
		}
		at := 0
		if port != 0 {
			at = port + i
		}
		l, err := s.bind(ctx, net.JoinHostPort(host, strconv.Itoa(at)))
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		e.mu.Lock()
		s.listenOn(l)
		e.unlock()
	}
	return nil
}

// Addrs returns the addresses of the servers, host:port each, in the order of Servers. They
// are the servers of zk.Connect and recipes.Connect.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, 0, len(e.servers))
	for _, s := range e.servers {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Servers returns the servers, in the order of their ids. The slice is the caller's.
func (e *Ensemble) Servers() []*Server { return slices.Clone(e.servers) }

// Server returns the server with an id, counted from 1. An id out of range ends the test, or
// panics outside tests.
func (e *Ensemble) Server(id int) *Server {
	if id < 1 || id > len(e.servers) {
		e.fatal("server %d: must be 1 to %d", id, len(e.servers))
		return nil
	}
	return e.servers[id-1]
}

// openConns describes the open connections.
func (e *Ensemble) openConns() []string {
	e.mu.Lock()
	defer e.unlock()
	var all []string
	for c := range e.conns {
		if c.ended {
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

// Close stops the servers and closes their connections. It returns once all of their
// goroutines have ended. A second Close only waits for that.
func (e *Ensemble) Close() error {
	e.mu.Lock()
	if e.closed {
		e.unlock()
		e.running.Wait()
		return nil
	}
	e.closed = true
	for _, t := range []*time.Timer{e.electionTimer, e.stepDownTimer} {
		if t != nil {
			t.Stop()
		}
	}
	var listeners []net.Listener
	for _, s := range e.servers {
		listeners = append(listeners, s.shutDown()...)
	}
	for c := range e.conns {
		e.abort(c, nil)
	}
	e.wake()
	e.unlock()
	close(e.stop)

	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	if e.opts.OnCommit != nil {
		e.commits.put(Commit{}, 0, 0) // the end
	}
	e.running.Wait()
	e.commits.close()
	return errors.Join(errs...)
}

// fatal reports an invalid argument: it ends the test, or panics outside tests.
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
