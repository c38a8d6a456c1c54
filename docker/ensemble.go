// SPDX-License-Identifier: Apache-2.0

// Package docker starts real ZooKeeper ensembles of one, three or five servers
// for tests, and injects faults into them.
//
//	func TestTheSessionOutlivesALeader(t *testing.T) {
//		e := docker.Start(t, &docker.Options{Servers: 3})
//		leader, err := e.Leader(t.Context())
//		require.NoError(t, err)
//		require.NoError(t, leader.Kill(t.Context()))
//		…
//	}
//
// # Where the servers run
//
// On the first of these that is available: the servers that ZK_SERVERS names (a comma
// separated list; they are used as they are and no fault can be injected); a
// container engine, through testcontainers-go; plain Java processes, as root on
// Linux with their own network. The choice is made once per process and
// printed, with the reason why a backend was passed over. ZK_TEST_BACKEND or
// [Options].Backend ("docker", "java") name one.
//
// ZK_TEST_IMAGE names the image, and with it the engine: if the image is unavailable,
// no ensemble starts, and no test is skipped. Without it the image is zookeeper:3.9,
// pulled when it is not there; where no registry answers, `go run ./cmd/ensemble -image` builds one from
// Debian's packages. Java needs ZooKeeper's jars: see [Options].Backend.
//
// # What faults do
//
// Addresses last as long as the ensemble: a server that was killed or partitioned
// comes back at its address. On Linux a client connects to the container itself, so
// a killed or partitioned server is silent, as a lost machine is. Elsewhere (Docker
// Desktop, a remote engine) containers cannot be reached and clients go through a
// mapped port of this machine, where a killed server refuses immediately.
//
// For faults of the network between one client and one server (lost replies, delay,
// resets, half-open connections) put a [Proxy] in between.
//
// Start, Run, the addresses and ids of servers, and their faults have the same names, order
// and meaning in package zktest, which runs ZooKeeper in the test process: a test that uses
// only these runs on either, after a change of one import.
//
// # Cleanup
//
// Close and the end of the test remove everything that was created. A run that was
// killed leaves containers or network namespaces, and the next run removes those
// whose process has ended. It never touches other containers.
package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/docker/internal/need"
)

// startBound bounds the time until every server of an ensemble serves.
const startBound = 3 * time.Minute

// Ensemble is a set of running ZooKeeper servers. All methods are safe for
// concurrent use, but Close must be the last.
type Ensemble struct {
	servers []*Server
	remove  func() error
	logf    func(format string, args ...any)

	closing  sync.Once
	closeErr error
}

// Run starts an ensemble and returns once every server serves, or with an error
// after at most three minutes, plus what it takes to get an image, jars or an archive
// of their classes that are missing. On error nothing is left running, and the error holds the end of a
// server's log. A nil opts means one server with the defaults. The caller must
// Close the ensemble; ctx bounds the start only.
func Run(ctx context.Context, opts *Options) (*Ensemble, error) {
	p, err := opts.plan()
	if err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	back, err := choose(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound,
		fmt.Errorf("not serving after %v", startBound))
	defer cancel()
	for line := range strings.Lines(back.report("zookeeper")) {
		p.logf("%s", strings.TrimSuffix(line, "\n"))
	}
	begin := time.Now()
	nodes, remove, err := back.launch(ctx, p)
	e := &Ensemble{remove: remove, logf: p.logf}
	for i, n := range nodes {
		e.servers = append(e.servers, &Server{id: i + 1, node: n})
	}
	if err == nil {
		err = e.settle(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start ZooKeeper with %s: %w", back.describe(), err), e.Close())
	}
	p.logf("zookeeper: %s serving after %v", strings.Join(e.Addrs(), ","), time.Since(begin).Round(time.Millisecond))
	return e, nil
}

// Start is Run for tests: it fails tb on error, logs to tb unless opts.Log is set
// and closes the ensemble when tb ends. If no backend is available, or the servers of
// ZK_SERVERS do not support what opts requires, it skips tb and logs the reason, unless the
// environment variable CI is set: a green run there must not mean that nothing ran. Close
// clients before the ensemble, by registering their cleanup after Start: packets to the
// addresses of removed servers may leave the machine.
func Start(tb testing.TB, opts *Options) *Ensemble {
	tb.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Log == nil {
		o.Log = tb.Logf
	}
	e, err := Run(tb.Context(), &o)
	switch {
	case err == nil:
	case !need.CI() && (errors.Is(err, ErrNoBackend) || errors.Is(err, ErrUnsupported)):
		tb.Skipf("not run: %v", err)
	default:
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("close the ensemble: %v", err)
		}
	})
	return e
}

// Close stops the servers and removes everything that was made for them. Further
// calls return the first result. Servers that ZK_SERVERS names are left alone.
func (e *Ensemble) Close() error {
	e.closing.Do(func() {
		if e.remove != nil {
			e.closeErr = e.remove()
		}
	})
	return e.closeErr
}

// Servers returns the servers, in the order of their ids. The slice is the
// caller's.
func (e *Ensemble) Servers() []*Server { return slices.Clone(e.servers) }

// Server returns the server with an id, counted from 1. It panics if there is none.
func (e *Ensemble) Server(id int) *Server {
	if id < 1 || id > len(e.servers) {
		panic(fmt.Sprintf("docker: server %d: must be 1 to %d", id, len(e.servers)))
	}
	return e.servers[id-1]
}

// Addrs returns host:port of each server, in the order of Servers. They stay
// valid until Close, whatever happens to the servers.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Leader waits until exactly one server that answers reports that it leads, and
// returns it; a server alone in its ensemble counts as its leader. An isolated leader
// reports for SyncLimit ticks that it leads. During that time, Leader returns it or,
// once the others have elected another, waits.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	var leader *Server
	err := poll(ctx, func(ctx context.Context) (err error) {
		leader, _, err = e.leader(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a leader: %w", err)
	}
	return leader, nil
}

// leader asks all servers once, and returns the only one that reports that it leads, and the answers.
func (e *Ensemble) leader(ctx context.Context) (leader *Server, modes []string, err error) {
	modes = e.modes(ctx)
	for i, mode := range modes {
		if mode != "leader" && mode != "standalone" {
			continue
		}
		if leader != nil {
			return nil, modes, fmt.Errorf("several servers report that they lead: %q", modes)
		}
		leader = e.servers[i]
	}
	if leader == nil {
		return nil, modes, fmt.Errorf("no server reports that it leads: %q", modes)
	}
	return leader, modes, nil
}

// Followers waits until a leader and a majority serve, and returns the servers that report that they follow, in
// the order of Servers; none in an ensemble of one.
func (e *Ensemble) Followers(ctx context.Context) ([]*Server, error) {
	var followers []*Server
	err := poll(ctx, func(ctx context.Context) error {
		_, modes, err := e.leader(ctx)
		if err != nil {
			return err
		}
		followers = nil
		for i, mode := range modes {
			if mode == "follower" {
				followers = append(followers, e.servers[i])
			}
		}
		if len(followers) < len(e.servers)/2 { // new leaders serve first
			return fmt.Errorf("no majority reports that it serves: %q", modes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for followers: %w", err)
	}
	return followers, nil
}

// WaitServing waits until every server serves (see [Server.Mode]).
func (e *Ensemble) WaitServing(ctx context.Context) error {
	for _, s := range e.servers {
		if err := s.WaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// modes asks all servers at the same time; "" stands for one that does not serve.
func (e *Ensemble) modes(ctx context.Context) []string {
	modes := make([]string, len(e.servers))
	var wg sync.WaitGroup
	for i, s := range e.servers {
		wg.Go(func() {
			// A server that does not answer does not serve.
			modes[i], _ = s.probe(ctx)
		})
	}
	wg.Wait()
	return modes
}

// settle waits until a new ensemble serves, and returns early when a server has
// exited: a wrong configuration does not become right.
func (e *Ensemble) settle(ctx context.Context) error {
	for _, s := range e.servers {
		err := poll(ctx, func(ctx context.Context) error {
			if err := s.node.running(ctx); err != nil {
				return &fatal{err}
			}
			_, err := s.probe(ctx)
			return err
		})
		if err != nil {
			// The bound may have ended the wait; the log is useful all the same.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return fmt.Errorf("server %d at %s: %w; the end of its log:\n%s", s.id, s.Addr(), err, s.node.tail(ctx))
		}
	}
	return nil
}
