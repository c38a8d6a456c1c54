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
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

func killContender(_ context.Context, s *stage, args []string, lasts time.Duration) (heal, error) {
	c, err := s.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		next := func(context.Context) error { return c.start() }
		if c.hasEnded() { // by itself, which is told elsewhere: what takes its place can be killed
			return next, errEnded(c)
		}
		c.kill()
		return next, nil
	})
}

func pauseContender(_ context.Context, s *stage, args []string, lasts time.Duration) (heal, error) {
	c, err := s.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		if c.hasEnded() {
			return nil, errEnded(c)
		}
		return func(ctx context.Context) error { return c.thaw(ctx) }, c.freeze()
	})
}

// hasEnded says that the current life has.
func (c *contender) hasEnded() bool {
	select {
	case <-c.current().ended:
		return true
	default:
		return false
	}
}

func errEnded(c *contender) error { return fmt.Errorf("%s has ended by itself", c.body()) }

// stepClock steps a clock that BuildStepping has made: checkPlan has seen to it that it has one.
func stepClock(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
	if err != nil {
		return nil, err
	}
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		if c.hasEnded() {
			return nil, errEnded(c)
		}
		c.tell(worker.Step + " " + by.String())
		return func(context.Context) error {
			c.tell(worker.Step + " " + (-by).String())
			return nil
		}, nil
	})
}

// onLinks spoils what passes between a contender and the servers.
func (s *stage) onLinks(name string, spoil func(*docker.Proxy)) (heal, error) {
	c, err := s.contender(name)
	if err != nil {
		return nil, err
	}
	return s.onLinksOf(c, spoil)
}

func (s *stage) onLinksOf(c *contender, spoil func(*docker.Proxy)) (heal, error) {
	return s.hospital.admitted(c.links(), func() (heal, error) {
		for _, p := range c.proxies {
			spoil(p)
		}
		return func(context.Context) error {
			c.pass()
			return nil
		}, nil
	})
}

// directions are the words for the ways of what passes between a contender and the servers.
var directions = []string{"both", "to-server", "to-client"}

func cutContender(_ context.Context, s *stage, args []string, lasts time.Duration) (heal, error) {
	way := []docker.Direction{docker.Both, docker.ToServer, docker.ToClient}[slices.Index(directions, args[1])]
	c, err := s.target(args[0], lasts)
	if err != nil {
		return nil, err
	}
	name := c.current().name
	back, err := s.onLinksOf(c, func(p *docker.Proxy) { p.Swallow(way) })
	if err != nil || back == nil {
		return back, err
	}
	note := func(kind history.Kind) {
		s.journal.add(history.Event{At: s.time.Now(), Kind: kind, Contender: name, Text: args[1]})
	}
	note(history.Partitioned)
	return func(ctx context.Context) error {
		note(history.Healed)
		return back(ctx)
	}, nil
}

func refuse(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return s.onLinks(args[0], (*docker.Proxy).Refuse)
}

func slow(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	return s.onLinks(args[0], func(p *docker.Proxy) { p.Delay(docker.Both, by/2) })
}

// loseReply loses the answer to the next request of a kind, at each server that has one. Of a protocol that is not
// ZooKeeper's, which the proxies do not understand, it loses all answers for a while.
func loseReply(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	if !s.isZooKeeper() {
		return s.onLinks(args[0], func(p *docker.Proxy) { p.Swallow(docker.ToClient) })
	}
	var lost []<-chan struct{}
	back, err := s.onLinks(args[0], func(p *docker.Proxy) { lost = append(lost, p.LoseAnswer(requestsOf[args[1]])) })
	if err != nil {
		return back, err
	}
	return func(ctx context.Context) error {
		err := back(ctx)
		// Who lost an answer may know it a moment before the proxy has told.
		for left := 20; left > 0; left-- {
			for _, happened := range lost {
				select {
				case <-happened:
					return err
				default:
				}
			}
			clock.Sleep(worker.ClockPeriod)
		}
		return errors.Join(err, fmt.Errorf("no answer to a %s came by: %w", args[1], errMissed))
	}, nil
}
