// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// handovers are several locks, each held through one server while a successor waits through another. The holders send their
// heartbeats at different times, so that one partition begins at several phases of the heartbeat period.
type handovers struct {
	env     *env
	timeout time.Duration
	clients []*recipes.Client // the holders'
	holds   []*lock.Hold
	next    []*recipetest.Locking
	history []*history
}

// handovers returns handovers whose i-th holder connects to the servers of holderAt(i). It begins again if a busy machine costs a
// holder its session.
func (s *env) handovers(timeout time.Duration, holderAt func(i int) []string, successorsAt ...string) *handovers {
	s.T.Helper()
	for attempt := range 5 {
		d := s.beginHandovers(fmt.Sprint("lock-", attempt), timeout, holderAt, successorsAt...)
		if d.beat() {
			return d
		}
		for i, hold := range d.holds {
			_ = hold.Unlock(s.Ctx) // it may be lost
			s.Unlock(d.next[i].Granted())
		}
	}
	require.FailNow(s.T, "no session lives until the fault")
	return nil
}

// beat waits until each holder's heartbeat was answered, and reports whether all hold. From there on heartbeats are periodic.
func (d *handovers) beat() bool {
	d.env.T.Helper()
	for _, hold := range d.holds {
		before := hold.Deadline()
		d.env.Eventually("a heartbeat", func() bool { return hold.Err() != nil || hold.Deadline().After(before) })
	}
	return !slices.ContainsFunc(d.holds, func(hold *lock.Hold) bool { return hold.Err() != nil })
}

func (s *env) beginHandovers(prefix string, timeout time.Duration, holderAt func(i int) []string, successorsAt ...string) *handovers {
	s.T.Helper()
	const n = 6
	d := &handovers{env: s, timeout: timeout}
	successor := s.Connect(recipes.Options{SessionTimeout: timeout}, successorsAt...)
	require.Equal(s.T, timeout, successor.SessionTimeout())
	step := time.NewTicker(timeout / 6 / n) // the heartbeat period is T/6
	defer step.Stop()
	for i := range n {
		name := fmt.Sprint(prefix, "-", i)
		client := s.Connect(recipes.Options{SessionTimeout: timeout}, holderAt(i)...)
		hold := s.Lock(s.Mutex(client, name))
		h := s.history()
		h.granted("holder", hold.Claim, time.Now())
		next := s.Locking(s.Ctx, s.Mutex(successor, name))
		s.Waiting(name, 2)
		d.clients = append(d.clients, client)
		d.holds = append(d.holds, hold)
		d.next = append(d.next, next)
		d.history = append(d.history, h)
		<-step.C
	}
	return d
}

// decide waits until all successors hold, and requires that every holder was notified before its successor was granted, by at
// least atLeast session timeouts.
func (d *handovers) decide(atLeast float64) {
	t := d.env.T
	t.Helper()
	least, most := time.Hour, -time.Hour
	for i, hold := range d.holds {
		cause := d.env.Done(hold)
		require.ErrorIs(t, cause, recipes.ErrLost)
		require.ErrorIs(t, cause, recipes.ErrDeadline, "notified by its own clock")
		next := d.next[i].Granted()
		d.history[i].granted("successor", next.Claim, d.next[i].At)
		d.history[i].requireNoOverlap()
		both := d.history[i].inOrder()
		slack := both[1].from.Sub(reacted(both[0].until))
		least, most = min(least, slack), max(most, slack)
	}
	t.Logf("notified before the successor held: by %.2f T to %.2f T", least.Seconds()/d.timeout.Seconds(), most.Seconds()/d.timeout.Seconds())
	require.GreaterOrEqual(t, least.Seconds()/d.timeout.Seconds(), atLeast)
}

// end releases the successors' locks.
func (d *handovers) end() {
	d.env.T.Helper()
	for i, next := range d.next {
		hold := next.Granted()
		d.history[i].releasing(hold.Claim)
		d.env.Unlock(hold)
		require.ErrorIs(d.env.T, d.holds[i].Unlock(d.env.Ctx), recipes.ErrLost)
	}
}

func TestPartitionedHolderIsNotifiedBeforeSuccessorHolds(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]docker.Direction{
		"both ways": docker.Both, "one way to the server": docker.ToServer, "one way to the client": docker.ToClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onThree(t)
			var proxies []*docker.Proxy
			for _, server := range s.ensemble.Servers() {
				proxies = append(proxies, s.proxy(server))
			}
			d := s.handovers(4*time.Second, func(i int) []string { return []string{proxies[i%len(proxies)].Addr()} })
			for _, p := range proxies {
				p.Drop(way)
			}
			d.decide(1. / 4)
			d.end()
		})
	}

	const timeout = 4 * time.Second // four ticks, the least for which the guarantee is given

	t.Run("follower partitioned from its leader while it answers pings", func(t *testing.T) {
		t.Parallel()
		s := onLent(t, slow)
		follower, leader := s.followers()[0], s.leader()
		d := s.handovers(timeout, func(int) []string { return []string{follower.Addr()} }, leader.Addr())
		require.NoError(t, follower.Isolate(s.Ctx))
		d.decide(1. / 8)
		mode, err := follower.Mode(s.Ctx)
		require.NoError(t, err)
		require.Equal(t, "follower", mode, "the server should still follow")
		require.NoError(t, follower.Heal(s.Ctx))
		require.NoError(t, s.ensemble.WaitServing(s.Ctx))
		d.end()
	})

	t.Run("isolated leader", func(t *testing.T) {
		t.Parallel()
		s := onLent(t, slow)
		old, followers := s.leader(), s.followers()
		d := s.handovers(timeout, func(int) []string { return []string{old.Addr()} }, followers[0].Addr(), followers[1].Addr())
		require.NoError(t, old.Isolate(s.Ctx))
		// The followers would notice the loss of their leader only after syncLimit, a minute. After a restart they elect
		// one immediately.
		for _, f := range followers {
			require.NoError(t, f.Kill(s.Ctx))
		}
		for _, f := range followers {
			require.NoError(t, f.Start(s.Ctx))
		}
		s.Eventually("another leader", func() bool {
			for _, f := range followers {
				if mode, err := f.Mode(s.Ctx); err == nil && mode == "leader" {
					return true
				}
			}
			return false
		})
		d.decide(1. / 8)
		mode, err := old.Mode(s.Ctx)
		require.NoError(t, err)
		require.Equal(t, "leader", mode, "the server should still lead")
		require.NoError(t, old.Heal(s.Ctx))
		require.NoError(t, s.ensemble.WaitServing(s.Ctx))
		d.end()
	})
}

// Its phases run beside each other and beside no other test of this package. A hold that is lost because a server or this process
// did not run proves nothing: the phase is run again.
func TestHolderRidesOutAPartitionOfAQuarterTimeout(t *testing.T) {
	const phases, attempts = 6, 5
	for phase := range phases {
		t.Run(fmt.Sprintf("%d sixths of a period after a heartbeat", phase), func(t *testing.T) {
			t.Parallel()
			for attempt := range attempts {
				s := onThree(t)
				servers := s.ensemble.Servers()
				server := servers[phase%len(servers)]
				stalls := s.stalls(server.Addr())
				lost := s.rideOut(fmt.Sprint("lock-", attempt), s.proxy(server), float64(phase)/phases)
				stall := stalls()
				if lost == nil {
					return
				}
				require.Greater(t, stall, shortestGap, "lost, although the server and this process ran: %v", lost)
				t.Logf("server and process did not run for %v: %v", stall, lost)
			}
			t.Log("not judged: the machine is too busy")
		})
	}
}

// rideOut partitions a holder for a quarter of its session timeout, in a phase of the period of its heartbeats, and returns why it
// lost the lock, if it did.
func (s *env) rideOut(name string, proxy *docker.Proxy, phase float64) (lost error) {
	const timeout = 4 * time.Second
	s.T.Helper()
	beats := make(chan struct{}, 1)
	client := s.Connect(recipes.Options{SessionTimeout: timeout, Trace: &recipes.Trace{
		Heartbeat: func(e recipes.SessionEvent) {
			if e.Err != nil {
				return
			}
			select {
			case beats <- struct{}{}:
			default:
			}
		},
	}}, proxy.Addr())
	hold := s.Lock(s.Mutex(client, name))
	next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{SessionTimeout: timeout}), name))
	s.Waiting(name, 2)

	for range 3 { // the first may be from before the wait
		await(s, beats)
	}
	<-time.After(time.Duration(phase * float64(timeout/6)))
	proxy.Drop(docker.Both)
	<-time.After(timeout / 4)
	deadline := hold.Deadline()
	proxy.Heal()
	select {
	case <-beats: // one that was answered before the partition
	default:
	}
	select {
	case <-beats:
	case <-hold.Done():
		s.Unlock(next.Granted())
		return hold.Err()
	}
	s.T.Logf("proved again %.2f T before the deadline", time.Until(deadline).Seconds()/timeout.Seconds())
	require.NoError(s.T, hold.Check(s.Ctx))
	require.False(s.T, next.Over())
	s.Unlock(hold)
	s.Unlock(next.Granted())
	return nil
}
