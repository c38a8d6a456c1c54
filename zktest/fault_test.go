// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const timeout = 4 * time.Second

func TestExpiryDeletesNodesAndClientLearnsOfIt(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.create("/mine", zk.FlagEphemeral)
		began, id := time.Now(), c.SessionID()
		require.NoError(t, e.Expire(t.Context(), id))
		_, _, err := e.Get("/mine")
		require.ErrorIs(t, err, zktest.ErrNoNode)
		c.eventually(zk.StateExpired)
		waitFor(t, "the client has a new session", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		require.NotEqual(t, id, c.SessionID())
		require.ErrorIs(t, e.Expire(t.Context(), id), zktest.ErrNoSession)
	})
}

func TestSilentSessionExpiresAtTickAfterTimeout(t *testing.T) {
	for _, d := range []zktest.Direction{zktest.ToServer, zktest.Both} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{Tick: time.Second})
			c := connect(t, e, timeout)
			c.create("/mine", zk.FlagEphemeral)
			began := time.Now()
			c.link.Hold(d)
			waitFor(t, "the node is gone", func() bool { _, _, err := e.Get("/mine"); return err != nil })
			require.GreaterOrEqual(t, time.Since(began), timeout-timeout/3, "its last ping was at most a third of the timeout before")
			require.LessOrEqual(t, time.Since(began), timeout+time.Second)
			c.link.Release()
			c.eventually(zk.StateExpired)
		})
	}
}

func TestSilentServerKeepsSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.create("/mine", zk.FlagEphemeral)
		c.link.Hold(zktest.ToClient)
		began := time.Now()
		waitFor(t, "the client gives up", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		c.link.Release()
		waitFor(t, "the client has its session again", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		_, _, err := c.Get("/mine")
		require.NoError(t, err)
	})
}

func TestTrapEndsConnectionAtItsFrame(t *testing.T) {
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			faketime.Test(t, func(t *testing.T) {
				e := inMemory(t, zktest.Options{})
				c := connect(t, e, timeout)
				var trap *zktest.Trap
				if after {
					trap = c.link.LoseReply(n)
				} else {
					trap = c.link.LoseRequest(n)
				}
				for i := 1; i < n; i++ {
					c.create(fmt.Sprint("/before-", i), 0)
				}
				require.False(t, trap.Sprung())
				_, err := c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				require.True(t, trap.Sprung())
				_, _, err = e.Get("/late")
				require.Equal(t, after, err == nil, "whether it was carried out")
				waitFor(t, "the client is served again", func() bool { _, _, err := c.Get("/"); return err == nil })
			})
		}
	}
}

func TestTrapOfLinkLeavesOtherClientsAlone(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		one, other := connect(t, e, timeout), connect(t, e, timeout)
		trap := one.link.LoseRequest(1)
		other.create("/other", 0)
		require.False(t, trap.Sprung())
		_, err := one.Create("/one", nil, 0, zk.WorldACL(zk.PermAll))
		require.Error(t, err)
		require.True(t, trap.Sprung())
	})
}

func TestDelayAppliesInBothDirections(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.link.Delay(50 * time.Millisecond)
		began := time.Now()
		c.create("/a", 0)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		e.Server(1).Delay(10 * time.Millisecond)
		began = time.Now()
		c.create("/b", 0)
		require.Equal(t, 120*time.Millisecond, time.Since(began))
	})
}

func TestHeldLinkDeliversRequestAtRelease(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.link.Hold(zktest.ToServer)
		go func() { _, _ = c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll)) }()
		time.Sleep(time.Second)
		_, _, err := e.Get("/late")
		require.Error(t, err)
		c.link.Release()
		waitFor(t, "the node is there", func() bool { _, _, err := e.Get("/late"); return err == nil })
	})
}

func TestClientLeavesServerThatRefusesOrNeverAnswers(t *testing.T) {
	for _, fault := range []string{"refuse 1", "hang 1"} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{Servers: 3})
			require.NoError(t, e.Apply(fault))
			connect(t, e, timeout)
			require.Equal(t, 2, e.Sessions()[0].Server)
		})
	}
}

func TestRestartedServerKeepsDataAndSessions(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.create("/mine", zk.FlagEphemeral)
		id := c.SessionID()
		began := time.Now()
		require.NoError(t, e.Server(1).Kill(t.Context()))
		require.False(t, leads(e))
		_, err := e.Server(1).Mode(t.Context())
		require.Error(t, err)
		require.NoError(t, e.Server(1).Start(t.Context()))
		waitFor(t, "the session is served again", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		require.Equal(t, id, c.SessionID())
		_, _, err = c.Get("/mine")
		require.NoError(t, err)
	})
}

func requireMode(t *testing.T, want string, s *zktest.Server) {
	t.Helper()
	mode, err := s.Mode(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, mode)
}

func TestWipedServerRejectsClientThatHasSeenMore(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		for i := range 5 {
			c.create(fmt.Sprint("/", i), 0)
		}
		began := time.Now()
		require.NoError(t, e.Server(1).Wipe())
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Zero(t, c.since(zk.StateHasSession, began), "the client has seen transactions that this server lacks")
		require.Zero(t, c.since(zk.StateExpired, began), "and is not notified that its session has ended")
	})
}

func TestAnotherServerLeadsAfterLeaderIsKilled(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, timeout)
		c.create("/mine", zk.FlagEphemeral)
		first := e.Zxid()
		began := time.Now()
		require.NoError(t, awaitLeader(t, e).Kill(t.Context()))
		waitFor(t, "the client is served again", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		c.create("/more", 0)
		require.Equal(t, int64(2), e.Zxid()>>32, "a new epoch")
		require.Equal(t, int64(1), first>>32)
		_, _, err := e.Get("/mine")
		require.NoError(t, err)
		requireMode(t, "leader", awaitLeader(t, e))
		require.NoError(t, e.Server(1).Start(t.Context()))
		requireMode(t, "follower", e.Server(1))
	})
}

func TestServerWithMissingTransactionsDoesNotLead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, timeout)
		require.NoError(t, e.Server(2).Kill(t.Context()))
		for i := range 10 {
			c.create(fmt.Sprint("/", i), 0)
		}
		began := time.Now()
		require.NoError(t, e.Server(1).Kill(t.Context()))
		require.NoError(t, e.Server(2).Start(t.Context()))
		waitFor(t, "the client is served again", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		require.Same(t, e.Server(3), awaitLeader(t, e))
		_, _, err := e.Get("/9")
		require.NoError(t, err)
	})
}

func TestNoServerServesWithoutQuorum(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, timeout)
		began := time.Now()
		require.NoError(t, e.Server(2).Kill(t.Context()))
		require.NoError(t, e.Server(3).Kill(t.Context()))
		waitFor(t, "the client is disconnected", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		waitFor(t, "no server leads", func() bool { return !leads(e) })
		require.ErrorIs(t, e.Create("/x", nil), zktest.ErrNoQuorum)
		require.NoError(t, e.Server(3).Start(t.Context()))
		waitFor(t, "the client is served again", func() bool { return !c.since(zk.StateHasSession, began).IsZero() })
		c.create("/x", 0)
	})
}

func TestLaggingServerShowsOldDataAndAnswersWritesLate(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		slow, quick := connect(t, e, timeout, e.Server(2).Addr()), connect(t, e, timeout, e.Server(3).Addr())
		e.Server(2).Lag(time.Second)
		quick.create("/new", 0)
		_, _, err := slow.Get("/new")
		require.ErrorIs(t, err, zk.ErrNoNode)
		began := time.Now()
		slow.create("/own", 0)
		require.Equal(t, time.Second, time.Since(began))
		_, _, err = slow.Get("/new")
		require.NoError(t, err, "its own write follows the earlier transactions")
		began = time.Now()
		quick.create("/newer", 0)
		_, err = slow.Sync("/")
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		_, _, err = slow.Get("/newer")
		require.NoError(t, err)
		e.Server(2).Lag(0)
	})
}

func TestWriteThroughIsolatedFollowerIsCarriedOutAfterHeal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, 10*time.Second, e.Server(2).Addr())
		require.NoError(t, e.Server(2).Isolate(t.Context()))
		done := make(chan error, 1)
		go func() {
			_, err := c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
			done <- err
		}()
		time.Sleep(time.Second)
		_, _, err := e.Get("/late")
		require.Error(t, err)
		require.NoError(t, e.Server(2).Heal(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestCounterSticksAtMaximum(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/p", nil))
		require.NoError(t, e.SetCounter("/p", 2147483646))
		c := connect(t, e, timeout)
		require.Equal(t, "/p/a-2147483646", c.create("/p/a-", zk.FlagSequence))
		require.Equal(t, "/p/a-2147483647", c.create("/p/a-", zk.FlagSequence))
		require.Equal(t, "/p/b-2147483647", c.create("/p/b-", zk.FlagSequence))
		_, err := c.Create("/p/a-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.Error(t, e.SetCounter("/p", -1))
	})
}

func TestContainerIsDeletedAfterItsLastChild(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{ContainerInterval: 10 * time.Second})
		c := connect(t, e, timeout)
		for _, path := range []string{"/used", "/unused"} {
			_, err := c.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		require.NoError(t, c.Delete(c.create("/used/child", 0), -1))
		waitFor(t, "the container is gone", func() bool { _, _, err := e.Get("/used"); return err != nil })
		_, _, err := e.Get("/unused")
		require.NoError(t, err)
	})
}

func TestOnCommitReportsTransactionsInOrder(t *testing.T) {
	var commits []zktest.Commit
	faketime.Test(t, func(t *testing.T) {
		e, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, OnCommit: func(c zktest.Commit) { commits = append(commits, c) }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		c := connect(t, e, timeout)
		c.create("/a", zk.FlagEphemeral)
		_, err = c.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = c.Multi(
			&zk.CreateRequest{Path: "/b-", Flags: zk.FlagSequence, Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/a", Data: []byte("x"), Version: -1})
		require.NoError(t, err)
	})
	require.Len(t, commits, 5)
	for i, op := range []string{"createSession", "create", "create", "multi", "closeSession"} {
		require.Equal(t, op, commits[i].Op)
		require.Equal(t, int64(i+1), commits[i].Zxid)
		require.Equal(t, commits[0].Session, commits[i].Session)
	}
	require.Equal(t, "/a", commits[1].Path)
	require.ErrorIs(t, commits[2].Err, zktest.ErrNodeExists)
	require.Equal(t, "/b-0000000001", commits[3].Ops[0].Path)
	require.Equal(t, "x", string(commits[3].Ops[1].Data))
	require.Equal(t, []string{"/a"}, commits[4].Removed)
	require.False(t, commits[4].Expired)
}
