// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// restarting returns how long the restart of all servers takes: each must start and find the others.
func restarting(o *Options) (least, most time.Duration) {
	n := time.Duration(o.Servers)
	return n * (4*time.Second + o.Timeout/2), n * (5*time.Second + o.Timeout)
}

// server returns a server by its number or its role.
func (r *run) server(ctx context.Context, name string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all := r.servers.All()
	if name == "leader" || name == "follower" {
		leader, err := r.servers.Leader(ctx)
		if err != nil || name == "leader" {
			return leader, err
		}
		followers, err := r.followers(ctx, leader)
		if err != nil {
			return nil, err
		}
		if len(followers) == 0 {
			return nil, errors.New("no follower")
		}
		return followers[int(r.picks.Add(1))%len(followers)], nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > len(all) {
		return nil, fmt.Errorf("no server %q", name)
	}
	return all[n-1], nil
}

// followers returns the servers that follow the leader. A server that has not yet come back is not among them.
func (r *run) followers(ctx context.Context, leader Server) ([]Server, error) {
	if by, ok := r.servers.(interface {
		Followers(ctx context.Context) ([]Server, error)
	}); ok {
		return by.Followers(ctx)
	}
	// Servers that cannot be asked for their role: those that serve and do not lead.
	return slices.DeleteFunc(r.servers.All(), func(one Server) bool {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return one == leader || one.WaitServing(ctx) != nil
	}), nil
}

// Followers returns the servers that report that they follow.
func (e ensemble) Followers(ctx context.Context) ([]Server, error) {
	followers, err := e.Ensemble.Followers(ctx)
	all := make([]Server, len(followers))
	for i, one := range followers {
		all[i] = one
	}
	return all, err
}

// serves waits until a restarted server serves, for at most servingBound. Time during which another server is broken does
// not count: without the two there may be no quorum.
func (r *run) serves(ctx context.Context, server Server) error {
	r.reservations.recovers(r.serverTarget(server))
	bound := r.servingBound()
	for left := bound; ; {
		began, counts := time.Now(), !r.reservations.isBroken(r.serverTargets())
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		err := server.WaitServing(attempt)
		if err == nil {
			cancel()
			return nil
		}
		<-attempt.Done() // a call that fails immediately is retried after a second
		cancel()
		if counts && !r.reservations.isBroken(r.serverTargets()) {
			left -= time.Since(began)
		}
		if left <= 0 {
			return fmt.Errorf("it did not serve within %v: %w", bound, err)
		}
	}
}

// servingBound returns the longest time that a started server may take to serve.
func (r *run) servingBound() time.Duration { return faultBound + 2*r.opts.Timeout }

// onServer injects a fault into one server.
func (r *run) onServer(ctx context.Context, name string, f func(Server) (heal, error)) (heal, error) {
	server, err := r.server(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(r.serverTarget(server), func() (heal, error) {
		if err := r.ended(ctx, server); err != nil {
			return func(ctx context.Context) error { return server.Start(ctx) }, err
		}
		return f(server)
	})
}

// ended reports, as a failure of the servers, that a server without a fault has ended. A kill and restart would otherwise hide
// it. ended returns an error if the server has ended.
func (r *run) ended(ctx context.Context, server Server) error {
	checked, ok := server.(interface {
		Running(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	err := checked.Running(ctx)
	if !errors.Is(err, os.ErrProcessDone) {
		return nil // a failed query proves nothing
	}
	r.failuref("%s has ended unexpectedly: %v", r.serverTarget(server), err)
	return err
}

// onOneServer returns the injection of a fault that one operation of a server starts and another one heals.
func onOneServer(start, end func(Server, context.Context) error) func(context.Context, *run, []string, time.Duration) (heal, error) {
	return func(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
		return r.onServer(ctx, args[0], func(server Server) (heal, error) {
			return func(ctx context.Context) error { return end(server, ctx) }, start(server, ctx)
		})
	}
}

func killServer(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	return r.onServer(ctx, args[0], func(server Server) (heal, error) {
		return func(ctx context.Context) error {
			if err := server.Start(ctx); err != nil {
				return err
			}
			return r.serves(ctx, server)
		}, server.Kill(ctx)
	})
}

// fillDisk fills a server's disk. A server that found its disk full has ended, or hangs. So healing kills it, frees its disk,
// starts it again and waits until it serves.
func fillDisk(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	return r.onServer(ctx, args[0], func(target Server) (heal, error) {
		server, ours := target.(*docker.Server)
		if !ours {
			return nil, docker.ErrUnsupported // its disk is shared with other programs
		}
		err := server.FillDisk(ctx)
		if errors.Is(err, docker.ErrUnsupported) {
			return nil, err // nothing was filled, so the server need not be killed
		}
		return func(ctx context.Context) error {
			if err := errors.Join(server.Kill(ctx), server.FreeDisk(ctx), server.Start(ctx)); err != nil {
				return err
			}
			return r.serves(ctx, server)
		}, err
	})
}

// isolateLeader partitions the leader from its followers, and lets one contender reach only the leader: for a caller of the lock
// service, a replica.
func isolateLeader(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	links, proxies := c.linksTarget(), c.proxies
	if c.caller {
		p := r.replicas[c.number/2%len(r.replicas)]
		links, proxies = p.linksTarget(), p.proxies
	}
	return r.onServer(ctx, "leader", func(leader Server) (heal, error) {
		return r.reservations.reserved(links, func() (heal, error) {
			for i, p := range proxies {
				if i != r.number(leader)-1 {
					p.Refuse()
				}
			}
			healed := func() {}
			if !c.caller {
				healed = c.spoil(history.Event{Kind: history.Partitioned, Text: directions[0]}) // with the leader, from the others
			}
			return func(ctx context.Context) error {
				healed()
				for _, p := range proxies {
					p.Heal()
				}
				return leader.Heal(ctx)
			}, leader.Isolate(ctx)
		})
	})
}

// rollingRestart restarts all servers. The fault is over when all are restarted; only the end of the run ends it earlier.
func rollingRestart(ctx context.Context, r *run, _ []string, lasts time.Duration) (heal, error) {
	var reserved []string
	release := func() {
		for _, what := range reserved {
			r.reservations.release(what)
		}
	}
	for _, what := range r.serverTargets() {
		if err := r.reservations.reserve(what); err != nil {
			release()
			return nil, err
		}
		reserved = append(reserved, what)
	}
	next, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	r.background.Go(func() { done <- r.restartAll(next) })
	began := time.Now()
	return func(context.Context) error {
		defer release()
		if time.Since(began) < lasts { // the run has ended
			stop()
		}
		err := <-done
		stop()
		return err
	}, nil
}

// restartAll restarts one server after the other, each when the previous one serves. It starts no further restart once ctx has
// ended.
func (r *run) restartAll(ctx context.Context) error {
	all := r.servers.All()
	for i, server := range all {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d servers were restarted: %w", i, len(all), errMissed)
		}
		_ = r.within(ctx, func(ctx context.Context) error { return r.ended(ctx, server) }) // the server is started in any case
		err := r.within(ctx, server.Kill)
		if again := r.revive(ctx, server); again != nil {
			r.failuref("restart server %d: it has not come back: %v", i+1, errors.Join(err, again))
			return fmt.Errorf("%d of %d servers were restarted: %w", i, len(all), errMissed)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errMissed, err)
		}
	}
	return nil
}

// revive starts a server and waits until it serves.
func (r *run) revive(ctx context.Context, server Server) error {
	return r.within(ctx, func(ctx context.Context) error {
		if err := server.Start(ctx); err != nil {
			return err
		}
		return server.WaitServing(ctx)
	})
}

// within calls f within servingBound, also when ctx has ended.
func (r *run) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.servingBound())
	defer cancel()
	return f(ctx)
}
