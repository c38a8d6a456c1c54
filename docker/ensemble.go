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
// separated list; they are used as they are, without faults); a container engine,
// through testcontainers-go; plain Java processes, which as root on Linux have their
// own network. The choice is made once for each process and logged, with the reasons
// for which other backends were skipped. ZK_TEST_BACKEND or [Options].Backend
// ("docker", "java") name one.
//
// ZK_TEST_IMAGE names the image, and requires an engine: if the image is unavailable,
// no ensemble starts, and no test is skipped. Without it the image is zookeeper:3.9,
// which is pulled if necessary. Where no registry answers, `go run ./cmd/ensemble -image`
// builds an image from Debian's packages. Java needs ZooKeeper's jars: see
// [Options].Backend.
//
// # What faults do
//
// A server keeps its address when it is killed and started again, or partitioned. On
// Linux a client connects to the container itself, so a killed or partitioned server
// is silent, as a failed machine is. Elsewhere (Docker Desktop, a remote engine) clients
// connect through a mapped port of this machine, which refuses connections immediately
// while the server is killed.
//
// For faults between one client and one server (lost answers, delays, resets,
// half-open connections) put a [Proxy] in between.
//
// # Cleanup
//
// Close and the end of the test remove everything that was created. A killed run leaves
// containers or network namespaces behind; the next run removes those whose process has
// ended. It never touches other containers.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// startBound is the longest time until every server of an ensemble serves.
const startBound = time.Minute

// ErrUnsupported reports that the backend cannot do something, such as partition a
// server that the test did not start. The error that wraps it names what is missing. It
// is not errors.ErrUnsupported, which errors of the system wrap for other reasons.
var ErrUnsupported = errors.New("not possible with these servers")

// ErrNoBackend reports that nothing can run servers: there is no ZK_SERVERS, no
// container engine, and no Java with ZooKeeper's jars.
var ErrNoBackend = errors.New("nothing to run ZooKeeper with")

// Ensemble is a set of running ZooKeeper servers. All methods are safe for
// concurrent use, but Close must be the last.
type Ensemble struct {
	servers []*Server
	remove  func() error
	logf    func(format string, args ...any)

	closing  sync.Once
	closeErr error
}

// Run starts an ensemble and returns when every server serves, or with an error after
// at most a minute, plus the time to get a missing image or jars. On error nothing is
// left running, and the error contains the end of a server's log. A nil opts means one
// server with the defaults. The caller must Close the ensemble; ctx bounds only the
// start.
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
		e.servers = append(e.servers, &Server{ID: i + 1, node: n})
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

// Start is Run for tests: it fails tb on error, logs to tb unless opts.Log is set and
// closes the ensemble when tb ends. If nothing can run servers, or the servers of
// ZK_SERVERS cannot do what opts requires, it skips tb with the reason. It fails tb
// instead if the environment variable CI is set, so that a successful run there has run
// all tests. Close clients before the ensemble, for example in a cleanup that is
// registered after Start: the address of a removed server may belong to another host.
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
	case !inCI() && (errors.Is(err, ErrNoBackend) || errors.Is(err, ErrUnsupported)):
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

// inCI reports whether a missing engine must fail: CI is set, and not to a false value.
func inCI() bool {
	switch os.Getenv("CI") {
	case "", "0", "false":
		return false
	}
	return true
}

// Close stops the servers and removes everything that was created for them. Further
// calls return the first result. Servers that ZK_SERVERS names continue to run.
func (e *Ensemble) Close() error {
	e.closing.Do(func() {
		if e.remove != nil {
			e.closeErr = e.remove()
		}
	})
	return e.closeErr
}

// Servers returns the servers, in the order of their ids. The caller may change the
// slice.
func (e *Ensemble) Servers() []*Server { return append([]*Server(nil), e.servers...) }

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
	err := poll(ctx, func(ctx context.Context) error {
		leader = nil
		modes := e.modes(ctx)
		for i, mode := range modes {
			if mode != "leader" && mode != "standalone" {
				continue
			}
			if leader != nil {
				return fmt.Errorf("several servers report that they lead: %q", modes)
			}
			leader = e.servers[i]
		}
		if leader == nil {
			return fmt.Errorf("no server reports that it leads: %q", modes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a leader: %w", err)
	}
	return leader, nil
}

// Followers waits for a leader and returns the servers that report that they follow, in
// the order of Servers; none in an ensemble of one.
func (e *Ensemble) Followers(ctx context.Context) ([]*Server, error) {
	if _, err := e.Leader(ctx); err != nil {
		return nil, err
	}
	var followers []*Server
	for i, mode := range e.modes(ctx) {
		if mode == "follower" {
			followers = append(followers, e.servers[i])
		}
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

// modes returns the modes of all servers, "" for one that does not serve.
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
// exited: waiting does not repair a bad configuration.
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
			// The log is useful also if the wait has timed out.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return fmt.Errorf("server %d at %s: %w; the end of its log:\n%s", s.ID, s.Addr(), err, s.node.tail(ctx))
		}
	}
	return nil
}

// fatal marks an error that ends a poll immediately.
type fatal struct{ error }

func (f *fatal) Unwrap() error { return f.error }

// poll calls ready until it returns nil or a fatal error, or ctx ends. Its error then
// has the cause of ctx and the last error of ready.
func poll(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		var end *fatal
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
