// SPDX-License-Identifier: Apache-2.0

//go:build unix

package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A process that is stopped for longer than its session lives writes before it can
// know: nothing but the store's gate helps against that.
func TestPausedHolderIsRefusedByTheGate(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	const timeout = 2 * time.Second
	var store fencing.Gate
	holder := s.contender(contenderTask{Path: s.path("lock"), Timeout: timeout})
	old := tokenOf(holder, "acquired")
	holder.Send("write")
	require.NoError(t, store.Admit(tokenOf(holder, "write")))

	next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{SessionTimeout: timeout}), "lock"))
	s.waiting("lock", 2)
	holder.Stop()
	hold := next.granted()
	require.NoError(t, store.Admit(hold.Token()))

	holder.Send("write")
	holder.Continue()
	late := tokenOf(holder, "write")
	require.Equal(t, old, late, "it wrote as the holder that it had been")
	err := store.Admit(late)
	require.ErrorIs(t, err, fencing.ErrStale)
	t.Log(err)
	holder.Await("lost")
	require.NoError(t, hold.Check(s.ctx))
	s.unlock(hold)
}

// A waiter's event lies in its socket while it is stopped and its session expires.
// Its server, isolated from the others, never hears of that: when the waiter wakes,
// it sees itself first in the queue, and another client holds the lock.
//
// Whether it looks before it notices that it has slept is a matter of luck, so it
// is tried with several waiters at the same time.
func TestWaiterOnStaleFollowerIsNotGranted(t *testing.T) {
	t.Parallel()
	const timeout, waiters = 3 * time.Second, 8
	s := onFresh(t, docker.Options{
		Servers:   3,
		SyncLimit: 200, // an isolated follower notices nothing for 40 s
		// What says nothing for T is disconnected at the next multiple of this, by
		// the server's clock: practically never.
		Properties: map[string]string{"zookeeper.nio.sessionlessCnxnTimeout": "1000000000"},
	})
	follower, leader := s.followers()[0], s.leader()
	stale := s.bare(follower.Addr())
	defer stale.Close()

	var names []string
	var holds []*lock.Hold
	holder := s.connect(recipes.Options{SessionTimeout: timeout}, leader.Addr())
	for i := range waiters {
		names = append(names, fmt.Sprint("lock-", i))
		holds = append(holds, s.lock(s.mutex(holder, names[i])))
	}
	var stopped []*contender.Process
	for _, name := range names {
		stopped = append(stopped, s.contender(contenderTask{
			Servers: []string{follower.Addr()}, Path: s.path(name), Timeout: timeout, Patient: true,
		}))
	}
	var next []*locking
	var lines [][]string
	for i, name := range names {
		stopped[i].Await("waiting")
		next = append(next, s.locking(s.ctx, s.mutex(holder, name)))
		s.waiting(name, 3)
		behind := slices.DeleteFunc(s.nodes(name), func(node string) bool { return s.path(name)+"/"+node == holds[i].Path() })
		lines = append(lines, behind)
	}

	for _, p := range stopped {
		p.Stop()
	}
	for i, name := range names {
		s.unlock(holds[i])
		s.eventually("the follower has seen the release", func() bool { return len(s.nodesBy(stale, name)) == 2 })
	}
	require.NoError(t, follower.Isolate(s.ctx))
	for i, name := range names {
		holds[i] = next[i].granted()
		require.Equal(t, lines[i], s.nodesBy(stale, name), "the follower should show the waiter to be the first")
	}
	mode, err := follower.Mode(s.ctx)
	require.NoError(t, err)
	require.Equal(t, "follower", mode)

	for _, p := range stopped {
		p.Continue()
	}
	for i, p := range stopped {
		require.NotContains(t, p.Await("acquired", "rejoined"), "acquired")
		require.NoError(t, holds[i].Check(s.ctx))
	}

	require.NoError(t, follower.Heal(s.ctx))
	for i, name := range names {
		s.waiting(name, 2)
		s.unlock(holds[i])
		require.Greater(t, tokenOf(stopped[i], "acquired"), holds[i].Token())
	}
	for _, p := range stopped {
		p.Request("release", "released")
	}
}
