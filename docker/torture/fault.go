// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
)

// What a fault hits.
type hits int

const (
	onContender hits = iota
	onServer
	onAll // servers, one after the other
	onTree
)

func (h hits) servers() bool { return h == onServer || h == onAll }

// heal takes a fault back.
type heal func(context.Context) error

// A kind of fault.
type kind struct {
	says   string
	hits   hits
	lasts  func(dice) time.Duration
	args   func(dice) []string
	inject func(ctx context.Context, s *stage, args []string, lasts time.Duration) (heal, error)
}

// errBusy says that what a fault was to hit is broken already in a way that excludes it.
var errBusy = errors.New("another fault is on it")

// Kinds are the names of all faults.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Says is what a fault does, in a few words.
func Says(kind string) string { return kinds[kind].says }

func lasting(a, b int) func(dice) time.Duration {
	return func(d dice) time.Duration { return d.part(a, b) }
}

func aServer(d dice) []string    { return []string{d.server()} }
func aContender(d dice) []string { return []string{d.contender()} }
func nothing(dice) []string      { return nil }

// kinds are all faults, by name.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"kill-server": {
			"a server is ended by kill -9, and started again", onServer, lasting(2, 24), aServer, killServer,
		},
		"pause-server": {
			"a server is stopped by SIGSTOP", onServer, lasting(4, 32), aServer,
			onOne(Server.Pause, Server.Unpause),
		},
		"cut-server": {
			"a server is cut off from all others and from clients", onServer, lasting(8, 32), aServer,
			onOne(Server.Cut, Server.Mend),
		},
		"cut-follower": {
			"a follower is cut off from the leader, and its clients stay", onServer, lasting(12, 48),
			func(dice) []string { return []string{"follower"} },
			onOne(Server.CutFromPeers, Server.Mend),
		},
		"isolate-leader": {
			"the leader is cut off with some of the clients", onServer, lasting(12, 48), aContender, isolateLeader,
		},
		"fill-disk": {
			"a server's disk is full", onServer, lasting(16, 32), aServer, fillDisk,
		},
		"rolling-restart": {
			"all servers are restarted, one after the other", onAll, lasting(32, 48), nothing, rollingRestart,
		},
		"kill-contender": {
			"a contender is ended by kill -9, and another begins", onContender, lasting(1, 32), aContender, killContender,
		},
		"pause-contender": {
			"a contender is stopped by SIGSTOP, for up to 3 T", onContender, lasting(3, 48), aContender, pauseContender,
		},
		"cut-contender": {
			"what passes between a contender and all servers is lost, both ways or one way", onContender, lasting(3, 32),
			func(d dice) []string {
				return []string{d.contender(), []string{"both", "to-server", "to-client"}[d.IntN(3)]}
			}, cutContender,
		},
		"refuse": {
			"a contender's connections are reset and refused", onContender, lasting(1, 24), aContender, refuse,
		},
		"slow": {
			"what passes between a contender and the servers takes long", onContender, lasting(8, 32),
			func(d dice) []string { return []string{d.contender(), d.part(0, 2).String()} }, slow,
		},
		"step-clock": {
			"a contender's wall clock is stepped, forward or back, and set right again", onContender, lasting(4, 32),
			func(d dice) []string {
				step := d.between(time.Second, 4*d.opts.Timeout)
				if d.IntN(4) == 0 {
					step = time.Hour
				}
				if d.IntN(2) == 0 {
					step = -step
				}
				return []string{d.contender(), step.Truncate(time.Second).String()}
			}, stepClock,
		},
		"lose-reply": {
			"the answer to a join, a release or a heartbeat of a contender is lost with its connection", onContender, lasting(1, 8),
			aContender, loseReply,
		},
		"delete-node": {
			"an operator deletes a contender's node, the first in line or another", onTree, lasting(2, 8),
			func(d dice) []string { return []string{d.path(), fmt.Sprint(d.IntN(3))} }, deleteNode,
		},
		"delete-parent": {
			"an operator deletes a lock's parent with all in it", onTree, lasting(2, 8),
			func(d dice) []string { return []string{d.opts.paths()[d.IntN(len(containers))]} }, deleteParent,
		},
		"reap": {
			"a lock rests until the servers have removed its parent", onTree, lasting(12, 24),
			func(d dice) []string { return []string{d.opts.paths()[d.IntN(len(containers))]} }, rest,
		},
		// Planted at the start: there is nothing to inject.
		"counter": {says: "a lock's counter of sequence numbers is near its end, and reaches it", hits: onTree},
	}
}

// A hospital knows what is broken, so that no two faults are on the same thing in ways that exclude each other.
type hospital struct {
	mu   sync.Mutex // guards busy
	busy map[string]bool
}

// admit takes a thing, until it is discharged.
func (h *hospital) admit(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[what] {
		return fmt.Errorf("%s: %w", what, errBusy)
	}
	if h.busy == nil {
		h.busy = map[string]bool{}
	}
	h.busy[what] = true
	return nil
}

func (h *hospital) discharge(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, what)
}

// admitted runs f on a thing, which is discharged when f fails or when what f did is taken back.
func (h *hospital) admitted(what string, f func() (heal, error)) (heal, error) {
	if err := h.admit(what); err != nil {
		return nil, err
	}
	back, err := f()
	if err != nil {
		h.discharge(what)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer h.discharge(what)
		return back(ctx)
	}, nil
}

// server finds a server by its number or its role.
func (s *stage) server(ctx context.Context, name string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all := s.servers.All()
	if name == "leader" || name == "follower" {
		leader, err := s.servers.Leader(ctx)
		if err != nil || name == "leader" {
			return leader, err
		}
		followers := slices.DeleteFunc(all, func(one Server) bool { return one == leader })
		if len(followers) == 0 {
			return nil, errors.New("no follower")
		}
		return followers[int(s.picks.Add(1))%len(followers)], nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > len(all) {
		return nil, fmt.Errorf("no server %q", name)
	}
	return all[n-1], nil
}

// onServer breaks one server.
func (s *stage) onServer(ctx context.Context, name string, f func(Server) (heal, error)) (heal, error) {
	server, err := s.server(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(fmt.Sprint("server ", s.number(server)), func() (heal, error) { return f(server) })
}

func onOne(hurt, mend func(Server, context.Context) error) func(context.Context, *stage, []string, time.Duration) (heal, error) {
	return func(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
		return s.onServer(ctx, args[0], func(server Server) (heal, error) {
			return func(ctx context.Context) error { return mend(server, ctx) }, hurt(server, ctx)
		})
	}
}

func killServer(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return s.onServer(ctx, args[0], func(server Server) (heal, error) {
		return func(ctx context.Context) error {
			if err := server.Start(ctx); err != nil {
				return err
			}
			return nil
		}, server.Kill(ctx)
	})
}

// fillDisk fills it, and is over when the server serves again: one that has found its disk full has ended, or lingers.
func fillDisk(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return s.onServer(ctx, args[0], func(hurt Server) (heal, error) {
		server, ours := hurt.(*docker.Server)
		if !ours {
			return nil, docker.ErrUnsupported // its disk is everybody's
		}
		return func(ctx context.Context) error {
			return errors.Join(server.Kill(ctx), server.FreeDisk(ctx), server.Start(ctx))
		}, server.FillDisk(ctx)
	})
}

// isolateLeader leaves some contenders the leader only, and the leader those contenders only.
func isolateLeader(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
	if err != nil {
		return nil, err
	}
	return s.onServer(ctx, "leader", func(leader Server) (heal, error) {
		return s.hospital.admitted(c.links(), func() (heal, error) {
			for i, p := range c.proxies {
				if i != s.number(leader)-1 {
					p.Refuse()
				}
			}
			return func(ctx context.Context) error {
				c.pass()
				return leader.Mend(ctx)
			}, leader.CutFromPeers(ctx)
		})
	})
}

func rollingRestart(ctx context.Context, s *stage, _ []string, lasts time.Duration) (heal, error) {
	var taken []string
	free := func() {
		for _, what := range taken {
			s.hospital.discharge(what)
		}
	}
	for _, server := range s.servers.All() {
		what := fmt.Sprint("server ", s.number(server))
		if err := s.hospital.admit(what); err != nil {
			free()
			return nil, err
		}
		taken = append(taken, what)
	}
	done := make(chan error, 1)
	s.errands.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		var err error
		for _, server := range s.servers.All() {
			err = errors.Join(err, server.Kill(ctx), server.Start(ctx), server.WaitServing(ctx))
			if ctx.Err() != nil {
				break
			}
		}
		done <- err
	})
	return func(ctx context.Context) error {
		defer free()
		err := <-done
		if err == nil {
			return nil
		}
		// What was not reached within its time is seen to.
		var again error
		for _, server := range s.servers.All() {
			again = errors.Join(again, server.Start(ctx))
		}
		return again
	}, nil
}

func killContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		c.kill()
		return func(context.Context) error { return c.start() }, nil
	})
}

func pauseContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		return func(context.Context) error { return c.thaw() }, c.freeze()
	})
}

func stepClock(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
	if err != nil {
		return nil, err
	}
	by, err := time.ParseDuration(strings.Join(args[1:], " "))
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(c.body(), func() (heal, error) {
		c.tell(Step + " " + by.String())
		return func(context.Context) error {
			c.tell(Step + " " + (-by).String())
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

func cutContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	way, known := map[string]docker.Direction{
		"both": docker.Both, "to-server": docker.ToServer, "to-client": docker.ToClient,
	}[strings.Join(args[1:], " ")]
	if !known {
		return nil, fmt.Errorf("no direction in %q", args)
	}
	return s.onLinks(args[0], func(p *docker.Proxy) { p.Swallow(way) })
}

func refuse(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return s.onLinks(args[0], (*docker.Proxy).Refuse)
}

func slow(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	by, err := time.ParseDuration(strings.Join(args[1:], " "))
	if err != nil {
		return nil, err
	}
	return s.onLinks(args[0], func(p *docker.Proxy) { p.Delay(docker.Both, by/2) })
}

// loseReply loses the answer to whatever writes: a join, a heartbeat, a release. Of a protocol that is not ZooKeeper's, which
// the proxies do not understand, it loses all answers for a while.
func loseReply(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	if !s.isZooKeeper() {
		return s.onLinks(args[0], func(p *docker.Proxy) { p.Swallow(docker.ToClient) })
	}
	return s.onLinks(args[0], func(p *docker.Proxy) { p.LoseAnswer(isWrite) })
}

// isWrite says that a request is a create, a delete or a transaction.
func isWrite(frame []byte) bool {
	const opCreate, opDelete, opMulti, opCreateContainer = 1, 2, 14, 19
	if len(frame) < 8 {
		return false
	}
	switch frame[7] {
	case opCreate, opDelete, opMulti, opCreateContainer:
		return frame[4] == 0 && frame[5] == 0 && frame[6] == 0
	}
	return false
}

func deleteNode(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	place, err := strconv.Atoi(strings.Join(args[1:], " "))
	if err != nil {
		return nil, err
	}
	return nowAndForAll, s.operator.deleteNode(ctx, args[0], place)
}

func deleteParent(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return nowAndForAll, s.operator.deleteParent(ctx, args[0])
}

// nowAndForAll is the healing of what cannot be taken back.
func nowAndForAll(context.Context) error { return nil }

func rest(_ context.Context, s *stage, args []string, lasts time.Duration) (heal, error) {
	for _, c := range s.contenders {
		c.tell(Rest + " " + args[0] + " " + lasts.String())
	}
	return nowAndForAll, nil
}
