// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
)

func awaitLeader(t *testing.T, e *zktest.Ensemble) {
	t.Helper()
	waitFor(t, "a server leads", func() bool { return e.Leader() != nil })
}

func TestWipedServerCopiesDataOfOtherServers(t *testing.T) {
	for i := range 3 {
		bubble(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{Servers: 3})
			require.NoError(t, e.Create("/kept", []byte("x")))
			require.NoError(t, e.Server(i).Wipe())
			awaitLeader(t, e)
			c := connect(t, e, timeout, e.Server(i).Addr())
			c.create("/more", 0)
			data, _, err := c.Get("/kept")
			require.NoError(t, err)
			require.Equal(t, "x", string(data))
		})
	}
}

func TestLeaderWithoutQuorumStepsDownEachTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		e.Server(1).Stop()
		for range 3 {
			e.Server(2).Stop()
			waitFor(t, "no server leads", func() bool { return e.Leader() == nil })
			require.NoError(t, e.Server(2).Start())
			awaitLeader(t, e)
		}
	})
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Server(1).CutFromLeader())
		e.Server(1).Stop()
		require.NoError(t, e.Server(1).Start())
		e.Server(0).Stop()
		awaitLeader(t, e)
		e.Server(2).Stop()
		waitFor(t, "no server leads", func() bool { return e.Leader() == nil })
	})
}

func TestFollowerMendedUnderAnotherLeaderDisconnectsClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		c := connect(t, e, 10*time.Second, e.Server(4).Addr())
		require.NoError(t, e.Server(4).CutFromLeader())
		e.Server(0).Stop()
		awaitLeader(t, e)
		began := time.Now()
		require.NoError(t, e.Server(4).Mend())
		waitFor(t, "the client is disconnected", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		conn, err := e.Dial(t.Context(), "tcp", e.Server(4).Addr())
		require.NoError(t, err)
		other := rawclient.New(conn)
		defer func() { require.NoError(t, other.Close()) }()
		seen := handshake
		seen.LastZxid = e.Zxid()
		_, err = other.Connect(seen, maxWait)
		require.NoError(t, err, "its data is up to date")
	})
}

func TestNothingIsCommittedWithoutQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/p", nil))
		c := connect(t, e, timeout, e.Server(0).Addr())
		e.Server(1).Stop()
		e.Server(2).Stop()
		for _, err := range []error{
			e.Create("/x", nil), e.Set("/p", nil), e.Delete("/p"), e.Expire(c.SessionID()), e.PlantCounter("/p", 7),
		} {
			require.ErrorIs(t, err, zktest.ErrNoQuorum)
		}
		require.NoError(t, e.Server(1).Start())
	})
}

func TestReadsDoNotGoBackWhileNoServerLeads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		require.NoError(t, e.Create("/gone", nil))
		e.Server(0).Stop()
		awaitLeader(t, e)
		require.NoError(t, e.Delete("/gone"))
		e.Leader().Stop()
		require.Nil(t, e.Leader())
		_, _, err := e.Get("/gone")
		require.ErrorIs(t, err, zktest.ErrNoNode)
	})
}

func TestCounterIsPlantedInOrderOfTransactions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/p", nil))
		c := connect(t, e, 10*time.Second, e.Server(1).Addr())
		require.NoError(t, e.Server(1).CutFromLeader())
		require.NoError(t, e.Create("/secret", nil))
		require.NoError(t, e.PlantCounter("/p", 100))
		_, _, err := c.Get("/secret")
		require.ErrorIs(t, err, zk.ErrNoNode, "the follower is isolated")
		require.ErrorContains(t, e.PlantCounter("/p", 3), "below the counter, which is at 100")
		require.NoError(t, e.Server(1).Mend())
		require.Equal(t, "/p/n-0000000100", c.create("/p/n-", zk.FlagSequence))
		require.ErrorContains(t, e.PlantCounter("/p", 100), "which is at 101")
	})
}

func TestNodesCanBeCreatedConcurrently(t *testing.T) {
	e := zktest.StartWith(t, &zktest.Options{InMemory: true})
	for i := range 200 {
		var all sync.WaitGroup
		for j := range 4 {
			all.Go(func() {
				if err := e.Create(fmt.Sprintf("/a%d/b/c%d", i, j), nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestServerStartedDuringCloseDoesNotListen(t *testing.T) {
	for range 100 {
		e, err := zktest.Listen(nil)
		require.NoError(t, err)
		addr := e.Servers()[0]
		e.Server(0).Stop()
		var starting sync.WaitGroup
		starting.Go(func() { _ = e.Server(0).Start() }) // it is refused, or Close stops the server again
		require.NoError(t, e.Close())
		starting.Wait()
		_, err = net.Dial("tcp", addr)
		require.Error(t, err)
	}
}

func TestServerRestartsWhileClientsDial(t *testing.T) {
	e := zktest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	var dialling sync.WaitGroup
	dialling.Go(func() {
		for ctx.Err() == nil {
			if c, err := e.Dial(ctx, "tcp", e.Server(0).Addr()); err == nil {
				_ = c.Close()
			}
		}
	})
	for range 20 {
		e.Server(0).Stop()
		require.NoError(t, e.Server(0).Start())
	}
	require.ErrorContains(t, e.Server(0).Start(), "address already in use")
	stop()
	dialling.Wait()
}
