// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestUnreachableServerIsSilentAndAnswersAfterwards(t *testing.T) {
	type fault func(*zktest.Server, context.Context) error
	for name, f := range map[string]struct{ begin, end fault }{
		"partitioned": {(*zktest.Server).Partition, (*zktest.Server).Heal},
		"paused":      {(*zktest.Server).Pause, (*zktest.Server).Unpause},
	} {
		for _, servers := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				faketime.Test(t, func(t *testing.T) {
					e := inMemory(t, zktest.Options{Servers: servers})
					s := e.Server(servers)
					c := connect(t, e, 10*time.Second, s.Addr())
					require.NoError(t, f.begin(s, t.Context()))
					require.NoError(t, f.begin(s, t.Context()), "again")
					_, err := s.Mode(t.Context())
					require.Error(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					require.ErrorIs(t, s.WaitServing(ctx), context.DeadlineExceeded)

					written := make(chan error, 1)
					go func() {
						_, err := c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
						written <- err
					}()
					time.Sleep(time.Second)
					require.Empty(t, written)
					require.NoError(t, f.end(s, t.Context()))
					require.NoError(t, f.end(s, t.Context()), "again")
					require.NoError(t, s.WaitServing(t.Context()))
					require.NoError(t, <-written, "on the same connection")
				})
			})
		}
	}
}

func TestDialOfPartitionedServerWaitsAndOfPausedServerSucceeds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		s := e.Server(1)
		require.NoError(t, s.Pause(t.Context()))
		conn, err := e.Dial(t.Context(), "tcp", s.Addr())
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, s.Unpause(t.Context()))

		require.NoError(t, s.Partition(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = e.Dial(ctx, "tcp", s.Addr())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAnotherServerLeadsWhileLeaderIsUnreachable(t *testing.T) {
	for _, fault := range []string{"partition 1", "isolate 1", "pause 1", "isolate-leader"} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{Servers: 3})
			require.NoError(t, e.Apply(fault))
			leader := awaitLeader(t, e)
			require.NotEqual(t, 1, leader.ID())
			require.NoError(t, e.Create("/later", nil))
			followers, err := e.Followers(t.Context())
			require.NoError(t, err)
			require.Len(t, followers, 1)

			require.NoError(t, e.Server(1).Heal(t.Context()))
			require.NoError(t, e.Server(1).Unpause(t.Context()))
			require.NoError(t, e.WaitServing(t.Context()))
			requireMode(t, "follower", e.Server(1))
			c := connect(t, e, timeout, e.Server(1).Addr())
			_, _, err = c.Get("/later")
			require.NoError(t, err)
		})
	}
}

func TestIsolatedLeaderThatCannotBeReplacedLeadsUntilSyncLimit(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Server(3).Kill(t.Context()))
		require.NoError(t, e.Server(1).Isolate(t.Context()))
		require.Same(t, e.Server(1), awaitLeader(t, e))
		require.ErrorIs(t, e.Create("/x", nil), zktest.ErrNoQuorum)
		require.NoError(t, e.Server(1).Heal(t.Context()))
		require.NoError(t, e.Create("/x", nil), "it has its quorum again")

		require.NoError(t, e.Server(1).Isolate(t.Context()))
		waitFor(t, "no server leads", func() bool { return !leads(e) })
		require.NoError(t, e.Server(1).Heal(t.Context()))
		require.NoError(t, e.Server(3).Start(t.Context()))
		require.NoError(t, e.WaitServing(t.Context()))
		require.NoError(t, e.Create("/y", nil))
	})
}

func TestPartitionOutlastsKill(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		s := e.Server(2)
		for _, fault := range []func(context.Context) error{s.Isolate, s.Partition} {
			require.NoError(t, fault(t.Context()))
			require.NoError(t, s.Kill(t.Context()))
			require.NoError(t, s.Start(t.Context()))
			time.Sleep(time.Minute)
			_, err := s.Mode(t.Context())
			require.Error(t, err)
			require.NoError(t, s.Heal(t.Context()))
			requireMode(t, "follower", s)

			require.NoError(t, fault(t.Context()))
			require.NoError(t, s.Kill(t.Context()))
			require.NoError(t, s.Heal(t.Context()))
			require.NoError(t, s.Start(t.Context()))
			requireMode(t, "follower", s)
		}
		require.NoError(t, s.Pause(t.Context()))
		require.NoError(t, s.Kill(t.Context()))
		require.NoError(t, s.Start(t.Context()))
		requireMode(t, "follower", s)
	})
}

func TestKillOfPausedServerEndsItsConnectionsImmediately(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		began := time.Now()
		require.NoError(t, e.Server(1).Pause(t.Context()))
		require.NoError(t, e.Server(1).Kill(t.Context()))
		waitFor(t, "the connection ends", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		require.Less(t, c.since(zk.StateDisconnected, began).Sub(began), timeout/10)
	})
}

func TestIsolatedServerThatIsAloneServes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		require.NoError(t, e.Server(1).Isolate(t.Context()))
		connect(t, e, timeout).create("/x", 0)
		time.Sleep(time.Minute)
		requireMode(t, "standalone", e.Server(1))
	})
}

func TestSessionsOfPausedServerThatIsAloneDoNotExpireMeanwhile(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		id := connect(t, e, timeout).SessionID()
		require.NoError(t, e.Server(1).Pause(t.Context()))
		time.Sleep(time.Minute)
		require.Equal(t, id, e.Sessions()[0].ID, "its clock stands still")
		require.NoError(t, e.Server(1).Unpause(t.Context()))
	})
}

func TestWaitForLeaderEndsWithContextAndEnsemble(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e, err := zktest.Run(t.Context(), &zktest.Options{Servers: 3, InMemory: true})
		require.NoError(t, err)
		require.NoError(t, e.Server(2).Kill(t.Context()))
		require.NoError(t, e.Server(3).Kill(t.Context()))
		waitFor(t, "no server leads", func() bool { return !leads(e) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = e.Leader(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ended := make(chan error, 1)
		go func() {
			_, err := e.Leader(t.Context())
			ended <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, e.Close())
		require.Error(t, <-ended)
	})
}
