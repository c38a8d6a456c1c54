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

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
)

func awaitLeader(t *testing.T, e *zktest.Ensemble) *zktest.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	return leader
}

// leads reports whether a server leads now.
func leads(e *zktest.Ensemble) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.Leader(ctx)
	return err == nil
}

func TestWipedServerCopiesDataOfOtherServers(t *testing.T) {
	for i := 1; i <= 3; i++ {
		faketime.Test(t, func(t *testing.T) {
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
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Server(2).Kill(t.Context()))
		for range 3 {
			require.NoError(t, e.Server(3).Kill(t.Context()))
			waitFor(t, "no server leads", func() bool { return !leads(e) })
			require.NoError(t, e.Server(3).Start(t.Context()))
			awaitLeader(t, e)
		}
	})
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Server(2).Isolate(t.Context()))
		require.NoError(t, e.Server(2).Kill(t.Context()))
		require.NoError(t, e.Server(2).Start(t.Context()))
		require.NoError(t, e.Server(2).Heal(t.Context()))
		require.NoError(t, e.Server(1).Kill(t.Context()))
		awaitLeader(t, e)
		require.NoError(t, e.Server(3).Kill(t.Context()))
		waitFor(t, "no server leads", func() bool { return !leads(e) })
	})
}

func TestFollowerHealedUnderAnotherLeaderDisconnectsClients(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		c := connect(t, e, 10*time.Second, e.Server(5).Addr())
		require.NoError(t, e.Server(5).Isolate(t.Context()))
		require.NoError(t, e.Server(1).Kill(t.Context()))
		awaitLeader(t, e)
		began := time.Now()
		require.NoError(t, e.Server(5).Heal(t.Context()))
		waitFor(t, "the client is disconnected", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		conn, err := e.Dial(t.Context(), "tcp", e.Server(5).Addr())
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
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/p", nil))
		c := connect(t, e, timeout, e.Server(1).Addr())
		require.NoError(t, e.Server(2).Kill(t.Context()))
		require.NoError(t, e.Server(3).Kill(t.Context()))
		for _, err := range []error{
			e.Create("/x", nil), e.Set("/p", nil), e.Delete("/p"), e.Expire(t.Context(), c.SessionID()), e.SetCounter("/p", 7),
		} {
			require.ErrorIs(t, err, zktest.ErrNoQuorum)
		}
		require.NoError(t, e.Server(2).Start(t.Context()))
	})
}

func TestReadsDoNotGoBackWhileNoServerLeads(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		require.NoError(t, e.Create("/gone", nil))
		require.NoError(t, e.Server(1).Kill(t.Context()))
		awaitLeader(t, e)
		require.NoError(t, e.Delete("/gone"))
		require.NoError(t, awaitLeader(t, e).Kill(t.Context()))
		require.False(t, leads(e))
		_, _, err := e.Get("/gone")
		require.ErrorIs(t, err, zktest.ErrNoNode)
	})
}

func TestCounterIsSetInOrderOfTransactions(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/p", nil))
		c := connect(t, e, 10*time.Second, e.Server(2).Addr())
		require.NoError(t, e.Server(2).Isolate(t.Context()))
		require.NoError(t, e.Create("/secret", nil))
		require.NoError(t, e.SetCounter("/p", 100))
		_, _, err := c.Get("/secret")
		require.ErrorIs(t, err, zk.ErrNoNode, "the follower is isolated")
		require.ErrorContains(t, e.SetCounter("/p", 3), "below the counter, which is at 100")
		require.NoError(t, e.Server(2).Heal(t.Context()))
		require.Equal(t, "/p/n-0000000100", c.create("/p/n-", zk.FlagSequence))
		require.ErrorContains(t, e.SetCounter("/p", 100), "which is at 101")
	})
}

func TestNodesCanBeCreatedConcurrently(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
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
		e, err := zktest.Run(t.Context(), nil)
		require.NoError(t, err)
		addr := e.Addrs()[0]
		require.NoError(t, e.Server(1).Kill(t.Context()))
		var starting sync.WaitGroup
		starting.Go(func() { _ = e.Server(1).Start(t.Context()) }) // it is refused, or Close stops the server again
		require.NoError(t, e.Close())
		starting.Wait()
		_, err = net.Dial("tcp", addr)
		require.Error(t, err)
	}
}

func TestServerRestartsWhileClientsDial(t *testing.T) {
	e := zktest.Start(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	var dialling sync.WaitGroup
	dialling.Go(func() {
		for ctx.Err() == nil {
			if c, err := e.Dial(ctx, "tcp", e.Server(1).Addr()); err == nil {
				_ = c.Close()
			}
		}
	})
	for range 20 {
		require.NoError(t, e.Server(1).Kill(ctx))
		require.NoError(t, e.Server(1).Start(ctx))
	}
	require.NoError(t, e.Server(1).Start(ctx), "it runs already")
	require.NoError(t, e.Server(1).Kill(ctx))
	other, err := net.Listen("tcp", e.Server(1).Addr())
	require.NoError(t, err)
	require.ErrorContains(t, e.Server(1).Start(ctx), "address already in use")
	require.NoError(t, other.Close())
	stop()
	dialling.Wait()
}
