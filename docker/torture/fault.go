// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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

// heal takes a fault back. An error that matches errMissed says that there was none: nothing has come of it.
type heal func(context.Context) error

// A kind of fault.
type kind struct {
	says  string
	hits  hits
	lasts func(*Options) (least, most time.Duration)
	takes []word

	// inject does it, and returns what takes it back. With an error it may have done a part, and what it returns then, unless
	// that is nil, takes back whatever was done.
	inject func(ctx context.Context, s *stage, args []string, lasts time.Duration) (heal, error)
}

// errMissed says that a fault had no effect.
var errMissed = errors.New("no effect")

// Kinds are the names of all faults.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Says is what a fault does, in a few words.
func Says(kind string) string { return kinds[kind].says }

// lasting is from a/16 to b/16 of T.
func lasting(a, b time.Duration) func(*Options) (least, most time.Duration) {
	return func(o *Options) (least, most time.Duration) { return o.Timeout * a / 16, o.Timeout * b / 16 }
}

// restarting is the time that it takes to restart all servers: each has to start, and to find the others.
func restarting(o *Options) (least, most time.Duration) {
	n := time.Duration(o.Servers)
	return n * (4*time.Second + o.Timeout/2), n * (5*time.Second + o.Timeout)
}

// reaping is the time that it takes until a parent is removed: who is in line comes to an end, and servers look once a second.
func reaping(o *Options) (least, most time.Duration) {
	least, most = lasting(12, 24)(o)
	return least + 2*time.Second, most + 2*time.Second
}

func these(words ...word) []word { return words }

// kinds are all faults, by name.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"kill-server": {
			"a server is ended by kill -9, and started again", onServer, lasting(2, 24), these(aServer), killServer,
		},
		"pause-server": {
			"a server is frozen, by its container's engine or by SIGSTOP: its connections stay, and nothing is answered", onServer,
			lasting(4, 32), these(aServer), onOne(Server.Pause, Server.Unpause),
		},
		"cut-server": {
			"a server is cut off from all others and from clients", onServer, lasting(8, 32), these(aServer),
			onOne(Server.Cut, Server.Mend),
		},
		"cut-follower": {
			"a follower is cut off from the leader, and its clients stay", onServer, lasting(12, 48), these(aFollower),
			onOne(Server.CutFromPeers, Server.Mend),
		},
		"isolate-leader": {
			"the leader is cut off with some of the clients", onServer, lasting(12, 48), these(aContender), isolateLeader,
		},
		"fill-disk": {
			"a server's disk is full", onServer, lasting(16, 32), these(aServer), fillDisk,
		},
		"rolling-restart": {
			"all servers are restarted, one after the other", onAll, restarting, nil, rollingRestart,
		},
		"kill-contender": {
			"a contender is ended by kill -9, and another begins", onContender, lasting(1, 32), these(aContender), killContender,
		},
		"pause-contender": {
			"a contender is stopped by SIGSTOP, for up to 3 T", onContender, lasting(3, 48), these(aContender), pauseContender,
		},
		"cut-contender": {
			"what passes between a contender and all servers is lost, both ways or one way", onContender, lasting(3, 32),
			these(aContender, aDirection), cutContender,
		},
		"refuse": {
			"a contender's connections are reset and refused", onContender, lasting(1, 24), these(aContender), refuse,
		},
		"slow": {
			"what passes between a contender and the servers takes long", onContender, lasting(8, 32), these(aContender, aDelay), slow,
		},
		"step-clock": {
			"a contender's wall clock is stepped, forward or back, and set right again", onContender, lasting(4, 32),
			these(aContender, aStep), stepClock,
		},
		"lose-reply": {
			"the answer to a join, a release or a heartbeat of a contender is lost with its connection", onContender, lasting(4, 16),
			these(aContender, aRequest), loseReply,
		},
		"delete-node": {
			"an operator deletes a contender's node, the first in line or another", onTree, lasting(2, 8), these(aPath, aPlace),
			deleteNode,
		},
		"delete-parent": {
			"an operator deletes a lock's parent with all in it", onTree, lasting(2, 8), these(aContainer), deleteParent,
		},
		"reap": {
			"a lock rests until the servers have removed its parent", onTree, reaping, these(aContainer), reap,
		},
		// Planted at the start: there is nothing to inject.
		"counter": {says: "a lock's counter of sequence numbers is near its end, and reaches it", hits: onTree},
	}
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
		followers, err := s.followers(ctx, leader)
		if err != nil {
			return nil, err
		}
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

// followers are the servers that follow, which one that has not yet come back does not.
func (s *stage) followers(ctx context.Context, leader Server) ([]Server, error) {
	if by, ok := s.servers.(interface {
		Followers(ctx context.Context) ([]Server, error)
	}); ok {
		return by.Followers(ctx)
	}
	// Of servers that are not asked for their role, those that serve without leading.
	return slices.DeleteFunc(s.servers.All(), func(one Server) bool {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return one == leader || one.WaitServing(ctx) != nil
	}), nil
}

// Followers are the servers that say that they follow.
func (e ensemble) Followers(ctx context.Context) ([]Server, error) {
	followers, err := e.Ensemble.Followers(ctx)
	all := make([]Server, len(followers))
	for i, one := range followers {
		all[i] = one
	}
	return all, err
}

// serves waits until a server that was started again serves. It has a time for that, of which none passes while another
// server is broken: these two may be what a quorum lacks.
func (s *stage) serves(ctx context.Context, server Server) error {
	s.hospital.recovers(s.bed(server))
	bound := s.servingBound()
	for left := bound; ; {
		began, alone := time.Now(), !s.hospital.isBroken(s.beds())
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		err := server.WaitServing(look)
		if err == nil {
			cancel()
			return nil
		}
		<-look.Done() // whatever has failed at once is not asked again at once
		cancel()
		if alone && !s.hospital.isBroken(s.beds()) {
			left -= time.Since(began)
		}
		if left <= 0 {
			return fmt.Errorf("it did not serve within %v: %w", bound, err)
		}
	}
}

// servingBound is how long a server may take to serve once it was started.
func (s *stage) servingBound() time.Duration { return faultBound + 2*s.opts.Timeout }

// onServer breaks one server.
func (s *stage) onServer(ctx context.Context, name string, f func(Server) (heal, error)) (heal, error) {
	server, err := s.server(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.hospital.admitted(s.bed(server), func() (heal, error) {
		if err := s.ended(ctx, server); err != nil {
			return func(ctx context.Context) error { return server.Start(ctx) }, err
		}
		return f(server)
	})
}

// ended notes that a server on which there is no fault has ended: whoever ended it and started it again would hide that.
func (s *stage) ended(ctx context.Context, server Server) error {
	asked, ok := server.(interface {
		Running(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	err := asked.Running(ctx)
	if !errors.Is(err, os.ErrProcessDone) {
		return nil // that it could not be asked says nothing
	}
	s.amiss("%s has ended by itself: %v", s.bed(server), err)
	return err
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
			return s.serves(ctx, server)
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
		err := server.FillDisk(ctx)
		if errors.Is(err, docker.ErrUnsupported) {
			return nil, err // and it need not be killed to take nothing back
		}
		return func(ctx context.Context) error {
			if err := errors.Join(server.Kill(ctx), server.FreeDisk(ctx), server.Start(ctx)); err != nil {
				return err
			}
			return s.serves(ctx, server)
		}, err
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

// rollingRestart restarts all, and is over when they are: it is given no other end than that of the run.
func rollingRestart(ctx context.Context, s *stage, _ []string, lasts time.Duration) (heal, error) {
	var taken []string
	free := func() {
		for _, what := range taken {
			s.hospital.discharge(what)
		}
	}
	for _, what := range s.beds() {
		if err := s.hospital.admit(what); err != nil {
			free()
			return nil, err
		}
		taken = append(taken, what)
	}
	next, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	s.errands.Go(func() { done <- s.restartAll(next) })
	began := time.Now()
	return func(context.Context) error {
		defer free()
		if time.Since(began) < lasts { // it is the end of the run
			stop()
		}
		err := <-done
		stop()
		return err
	}, nil
}

// restartAll restarts one server after the other, each when the one before serves. It begins with no further one when ctx
// has ended.
func (s *stage) restartAll(ctx context.Context) error {
	all := s.servers.All()
	for i, server := range all {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d servers were restarted: %w", i, len(all), errMissed)
		}
		_ = s.within(ctx, func(ctx context.Context) error { return s.ended(ctx, server) }) // it is started in any case
		err := s.within(ctx, server.Kill)
		if again := s.revive(ctx, server); again != nil {
			s.amiss("server %d, which was to be restarted, has not come back: %v", i+1, errors.Join(err, again))
			return fmt.Errorf("%d of %d servers were restarted: %w", i, len(all), errMissed)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errMissed, err)
		}
	}
	return nil
}

// revive starts a server, and waits until it serves.
func (s *stage) revive(ctx context.Context, server Server) error {
	return s.within(ctx, func(ctx context.Context) error {
		if err := server.Start(ctx); err != nil {
			return err
		}
		return server.WaitServing(ctx)
	})
}

// within does something to a server, within the time that one may take to serve, and also when ctx has ended.
func (s *stage) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.servingBound())
	defer cancel()
	return f(ctx)
}

func killContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
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

func pauseContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	c, err := s.contender(args[0])
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

// directions are the words for the ways of what passes between a contender and the servers.
var directions = []string{"both", "to-server", "to-client"}

func cutContender(_ context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	way := []docker.Direction{docker.Both, docker.ToServer, docker.ToClient}[slices.Index(directions, args[1])]
	return s.onLinks(args[0], func(p *docker.Proxy) { p.Swallow(way) })
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
			sleep(beat)
		}
		return errors.Join(err, fmt.Errorf("no answer to a %s came by: %w", args[1], errMissed))
	}, nil
}

func deleteNode(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	place, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	return nowAndForAll, s.operator.deleteNode(ctx, args[0], place)
}

func deleteParent(ctx context.Context, s *stage, args []string, _ time.Duration) (heal, error) {
	return s.hospital.admitted("tree "+args[0], func() (heal, error) { // not while it rests
		return nowAndForAll, s.operator.deleteParent(ctx, args[0])
	})
}

// nowAndForAll is the healing of what cannot be taken back.
func nowAndForAll(context.Context) error { return nil }

// reap has the contenders leave a path alone, and looks whether the servers have removed it by the end.
func reap(ctx context.Context, s *stage, args []string, lasts time.Duration) (heal, error) {
	if s.operator == nil {
		return nil, docker.ErrUnsupported
	}
	return s.hospital.admitted("tree "+args[0], func() (heal, error) {
		resting, over := context.WithTimeout(context.WithoutCancel(ctx), lasts)
		done := make(chan error, 1)
		s.errands.Go(func() { done <- s.rest(resting, args[0], s.operator.exists) })
		return func(context.Context) error {
			err := <-done
			over()
			return err
		}, nil
	})
}

// rest has all rest at a path until ctx ends, those that begin meanwhile as well, and returns nil when the path was seen to be
// there and to go: one that is not there to begin with may have been deleted by hand a moment ago.
func (s *stage) rest(ctx context.Context, path string, exists func(context.Context, string) (bool, error)) error {
	until, _ := ctx.Deadline()
	told := map[*life]bool{}
	there := false
	for {
		for _, c := range s.contenders {
			if l := c.current(); !told[l] {
				told[l] = true
				c.tell(Rest + " " + path + " " + time.Until(until).String())
			}
		}
		is, err := exists(ctx, path)
		if err == nil && there && !is {
			return nil
		}
		there = there || err == nil && is
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s was not seen to go: %w", path, errors.Join(errMissed, err))
		}
	}
}
