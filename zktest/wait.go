// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"fmt"
	"net"
)

// Leader waits until a server leads, and returns it; a server alone in its ensemble counts as
// its leader. An isolated leader that the other servers cannot replace leads for the
// SyncLimit. If ctx has ended, Leader returns the present leader, or an error.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	var leader *Server
	err := e.wait(ctx, "a leader", func() bool {
		leader = e.leader
		return leader != nil
	})
	return leader, err
}

// Followers waits for a leader and returns the servers that serve and follow, in the order of
// Servers.
func (e *Ensemble) Followers(ctx context.Context) ([]*Server, error) {
	var followers []*Server
	err := e.wait(ctx, "a leader", func() bool {
		followers = nil
		for _, s := range e.servers {
			if s.answers() && s.mode() == "follower" {
				followers = append(followers, s)
			}
		}
		return e.leader != nil
	})
	return followers, err
}

// Await waits until n contenders are queued at the path of a lock, a semaphore or an election: until the node has n children. A
// missing node has none. The first contender is the holder, so that one client waits for the lock when there are two.
func (e *Ensemble) Await(ctx context.Context, path string, n int) error {
	return e.wait(ctx, fmt.Sprintf("%d contenders at %s", n, path), func() bool {
		stat, _ := e.latest().tree.Exists(path) // the zero Stat of a missing node has no children
		return int(stat.NumChildren) == n
	})
}

// WaitServing waits until every server serves.
func (e *Ensemble) WaitServing(ctx context.Context) error {
	for _, s := range e.servers {
		if err := s.WaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WaitServing waits until the server serves, alone or as part of a quorum.
func (s *Server) WaitServing(ctx context.Context) error {
	return s.ensemble.wait(ctx, fmt.Sprintf("server %d", s.id), s.answers)
}

// Mode returns the role that the server believes it has: "standalone", "leader" or
// "follower". The error reports that the server does not serve, or that nothing reaches it.
func (s *Server) Mode(context.Context) (string, error) {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	if !s.answers() {
		return "", fmt.Errorf("zktest: mode of server %d: not serving", s.id)
	}
	return s.mode(), nil
}

// answers reports whether the server answers clients. The caller holds mu.
func (s *Server) answers() bool { return s.serving && !s.silent() }

// wait waits until met returns true, which is called under mu.
func (e *Ensemble) wait(ctx context.Context, what string, met func() bool) error {
	for {
		e.mu.Lock()
		ok, closed, changed := met(), e.closed, e.changed
		if e.committed == nil {
			e.committed = make(chan struct{})
		}
		committed := e.committed
		e.unlock()
		switch {
		case ok:
			return nil
		case closed:
			return fmt.Errorf("zktest: wait for %s: %w", what, net.ErrClosed)
		}
		select {
		case <-changed:
		case <-committed:
		case <-ctx.Done():
			return fmt.Errorf("zktest: wait for %s: %w", what, context.Cause(ctx))
		}
	}
}
