// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

func killContender(_ context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	c, err := r.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(c.processTarget(), func() (heal, error) {
		next := func(context.Context) error { return c.start() }
		if c.hasEnded() { // unexpectedly, which processEnded reports; the process that replaces it can be killed
			return next, errEnded(c)
		}
		c.kill()
		return next, nil
	})
}

func pauseContender(_ context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	c, err := r.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(c.processTarget(), func() (heal, error) {
		if c.hasEnded() {
			return nil, errEnded(c)
		}
		return func(ctx context.Context) error { return c.resume(ctx) }, c.suspend()
	})
}

// hasEnded reports whether the current process has ended.
func (c *contender) hasEnded() bool {
	select {
	case <-c.current().ended:
		return true
	default:
		return false
	}
}

func errEnded(c *contender) error { return fmt.Errorf("%s has ended unexpectedly", c.processTarget()) }

// stepClock steps the clock of a contender that BuildStepping has built; checkPlan has made sure that it has such a clock.
func stepClock(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	c := r.partitioned.Load()
	if args[0] != partitionedTarget {
		var err error
		if c, err = r.contender(args[0]); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, errNotPartitioned
	}
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(c.processTarget(), func() (heal, error) {
		if c.hasEnded() {
			return nil, errEnded(c)
		}
		c.send(worker.Step + " " + by.String())
		return func(context.Context) error {
			c.send(worker.Step + " " + (-by).String())
			return nil
		}, nil
	})
}

// onLinks injects a fault into the links between a contender and the servers.
func (r *run) onLinks(name string, spoil func(*docker.Proxy)) (heal, error) {
	c, err := r.contender(name)
	if err != nil {
		return nil, err
	}
	return r.onLinksOf(c, spoil)
}

func (r *run) onLinksOf(c *contender, spoil func(*docker.Proxy)) (heal, error) {
	return r.reservations.reserved(c.linksTarget(), func() (heal, error) {
		for _, p := range c.proxies {
			spoil(p)
		}
		return func(context.Context) error {
			c.healLinks()
			return nil
		}, nil
	})
}

// spoilLinks is onLinksOf, and records it in the history.
func (r *run) spoilLinks(c *contender, e history.Event, spoil func(*docker.Proxy)) (heal, error) {
	undo, err := r.onLinksOf(c, spoil)
	if err != nil || undo == nil {
		return undo, err
	}
	healed := c.spoil(e)
	return func(ctx context.Context) error {
		healed() // before the links are: what follows counts
		return undo(ctx)
	}, nil
}

// directions are the directions of a partition between a contender and the servers. In the first two no request arrives.
var directions = []string{"both", "to-server", "to-client"}

func cutContender(_ context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	c, err := r.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	undo, err := r.spoilLinks(c, history.Event{Kind: history.Partitioned, Text: args[1]}, func(p *docker.Proxy) { p.Drop(dropped(args[1])) })
	if err != nil || undo == nil {
		return undo, err
	}
	if args[0] == holderTarget {
		r.partitioned.Store(c)
	}
	return func(ctx context.Context) error {
		r.partitioned.CompareAndSwap(c, nil)
		return undo(ctx)
	}, nil
}

func refuse(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	return r.spoilLinks(c, history.Event{Kind: history.Partitioned, Text: directions[0]}, (*docker.Proxy).Refuse)
}

func slow(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	delay := func(p *docker.Proxy) { p.Delay(docker.Both, by/2) }
	if by < r.opts.Timeout/12 { // slower handshakes are given up: a client that loses its connection gets none until the end of the fault
		return r.onLinksOf(c, delay)
	}
	return r.spoilLinks(c, history.Event{Kind: history.Slowed}, delay)
}

// loseReply drops the reply to the next request of a kind, on the link to each server. Proxies do not understand protocols
// other than ZooKeeper's; there, loseReply drops all replies for a while.
func loseReply(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	if !r.isZooKeeper() || c.caller {
		return r.onLinks(args[0], func(p *docker.Proxy) { p.Drop(docker.ToClient) })
	}
	var lost []<-chan struct{}
	undo, err := r.onLinks(args[0], func(p *docker.Proxy) { lost = append(lost, p.LoseReply(requestsOf[args[1]])) })
	if err != nil {
		return undo, err
	}
	return func(ctx context.Context) error {
		err := undo(ctx)
		// A client whose reply was dropped may notice a moment before the proxy reports it.
		for left := 20; left > 0; left-- {
			for _, happened := range lost {
				select {
				case <-happened:
					return err
				default:
				}
			}
			clock.Sleep(clock.Period)
		}
		return errors.Join(err, fmt.Errorf("no reply to a %s passed: %w", args[1], errMissed))
	}, nil
}

// dropped returns the traffic that a partition in one of the directions drops.
func dropped(direction string) docker.Direction {
	return []docker.Direction{docker.Both, docker.ToServer, docker.ToClient}[slices.Index(directions, direction)]
}
