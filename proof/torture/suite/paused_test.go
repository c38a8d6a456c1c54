// SPDX-License-Identifier: Apache-2.0

//go:build unix

package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A process that is stopped for longer than its session lives writes before it can
// know: nothing but the store's gate helps against that.
func TestPausedHolderIsRefusedByTheGate(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	const timeout = 2 * time.Second // of the process that is stopped
	var store fencing.Gate
	holder := s.contender(contenderTask{Path: s.Path("lock"), Timeout: timeout})
	old := tokenOf(holder, "acquired")
	holder.Send("write")
	require.NoError(t, store.Admit(tokenOf(holder, "write")))

	next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{SessionTimeout: 10 * time.Second}), "lock"))
	s.Waiting("lock", 2)
	holder.Stop()
	hold := next.Granted()
	require.NoError(t, store.Admit(hold.Token()))

	holder.Send("write")
	holder.Continue()
	late := tokenOf(holder, "write")
	require.Equal(t, old, late, "it wrote as the holder that it had been")
	err := store.Admit(late)
	require.ErrorIs(t, err, fencing.ErrStale)
	t.Log(err)
	holder.Await("lost")
	require.NoError(t, hold.Check(s.Ctx))
	s.Unlock(hold)
}

// A waiter's event lies in its socket while it is stopped and its session expires.
// Its server, isolated from the others, never hears of that: when the waiter wakes,
// it sees itself first in the queue, and another client holds the lock.
//
// Whether it looks before it notices that it has slept is a matter of luck, so it
// is tried with several waiters at the same time.
func TestWaiterOnStaleFollowerIsNotGranted(t *testing.T) {
	t.Parallel()
	// The sessions must outlast the steps between the stop and the isolation. Several waits for their end take up to 6 T.
	const timeout, waiters = 4 * time.Second, 8
	s := onLent(t, slow)
	follower, leader := s.followers()[0], s.leader()
	stale := s.Bare(follower.Addr())
	defer stale.Close()

	var names []string
	var holds []*lock.Hold
	holder := s.Connect(recipes.Options{SessionTimeout: time.Minute}, leader.Addr())
	for i := range waiters {
		names = append(names, fmt.Sprint("lock-", i))
		holds = append(holds, s.Lock(s.Mutex(holder, names[i])))
	}
	var stopped []*contender.Process
	for _, name := range names {
		stopped = append(stopped, s.contender(contenderTask{
			Servers: []string{follower.Addr()}, Path: s.Path(name), Timeout: timeout, Patient: true,
		}))
	}
	var next []*recipetest.Locking
	var lines [][]string
	for i, name := range names {
		stopped[i].Await("waiting")
		next = append(next, s.Locking(s.Ctx, s.Mutex(holder, name)))
		s.Waiting(name, 3)
		behind := slices.DeleteFunc(s.Nodes(name), func(node string) bool { return s.Path(name)+"/"+node == holds[i].Path() })
		lines = append(lines, behind)
	}

	for _, p := range stopped {
		p.Stop()
	}
	for i, name := range names {
		s.Unlock(holds[i])
		s.Eventually("the follower has seen the release", func() bool { return len(s.NodesBy(stale, name)) == 2 })
	}
	require.NoError(t, follower.Isolate(s.Ctx))
	for i, name := range names {
		holds[i] = next[i].Granted()
		require.Equal(t, lines[i], s.NodesBy(stale, name), "the follower should show the waiter to be the first")
	}
	mode, err := follower.Mode(s.Ctx)
	require.NoError(t, err)
	require.Equal(t, "follower", mode)

	for _, p := range stopped {
		p.Continue()
	}
	for i, p := range stopped {
		require.NotContains(t, p.Await("acquired", "rejoined"), "acquired")
		require.NoError(t, holds[i].Check(s.Ctx))
	}

	require.NoError(t, follower.Heal(s.Ctx))
	for i, name := range names {
		s.Waiting(name, 2)
		s.Unlock(holds[i])
		require.Greater(t, tokenOf(stopped[i], "acquired"), holds[i].Token())
	}
	for _, p := range stopped {
		p.Request("release", "released")
	}
}
