// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// These tests are about a leader that has no quorum, and has not stepped down yet: with the default
// options it does after 2.5 s.

// isolateAll isolates servers.
func isolateAll(t *testing.T, e *zktest.Ensemble, servers ...int) {
	t.Helper()
	for _, id := range servers {
		require.NoError(t, e.Server(id).Isolate(t.Context()))
	}
}

// requireSilence requires that nothing arrives on a connection, which is then unusable.
func requireSilence(t *testing.T, c *rawclient.Conn, patience time.Duration) {
	t.Helper()
	_, err := c.Next(patience)
	require.ErrorIs(t, err, rawclient.ErrSilent)
}

func TestSessionThatExpiresWithoutQuorumEndsOnceTheLeaderHasItAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, time.Second, e.Server(2).Addr())
		c.create("/mine", zk.FlagEphemeral)
		isolateAll(t, e, 2, 3)
		began := time.Now()
		time.Sleep(2 * time.Second)
		require.Zero(t, c.since(zk.StateDisconnected, began), "its server answers pings")
		_, _, err := e.Get("/mine")
		require.NoError(t, err, "nothing is committed without a quorum")

		require.NoError(t, e.Server(2).Heal(t.Context()))
		require.NoError(t, e.Server(3).Heal(t.Context()))
		_, _, err = e.Get("/mine")
		require.ErrorIs(t, err, zktest.ErrNoNode, "what the follower has heard comes too late")
		waitFor(t, "the client learns of it", func() bool { return !c.since(zk.StateExpired, began).IsZero() })
	})
}

func TestNewLeaderDoesNotKnowOfExpiryWithoutQuorum(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c := connect(t, e, time.Second)
		c.create("/mine", zk.FlagEphemeral)
		id := c.SessionID()
		c.link.Hold(zktest.Both)
		isolateAll(t, e, 2, 3)
		waitFor(t, "no server leads", func() bool { return !leads(e) })
		c.link.Release()
		require.NoError(t, e.Server(2).Heal(t.Context()))
		awaitLeader(t, e)
		time.Sleep(5 * time.Second)
		require.Equal(t, id, c.SessionID(), "the new leader gave it its whole timeout")
		_, _, err := e.Get("/mine")
		require.NoError(t, err)
	})
}

func TestLeaderWithoutQuorumRefusesSessionThatHasExpired(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c, session := attachRaw(t, e, 1, time.Second, nil)
		isolateAll(t, e, 2, 3)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Send(rawclient.Request(wire.XidPing, wire.Ping{})))
		requireSilence(t, c, 10*time.Millisecond) // ZooKeeper drops the request
		require.Len(t, e.Sessions(), 1)

		conn, err := e.Dial(t.Context(), "tcp", e.Server(1).Addr())
		require.NoError(t, err)
		again := rawclient.New(conn)
		defer func() { require.NoError(t, again.Close()) }()
		req := handshake
		req.Session, req.Password = session.Session, session.Password
		reply, err := again.Connect(req, time.Millisecond)
		require.NoError(t, err)
		require.Zero(t, reply.Session)
		require.NoError(t, c.Close())
	})
}

func TestLeaderWithoutQuorumAttachesSessionsAndAnswersSyncs(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		c, session := attachRaw(t, e, 2, 10*time.Second, nil)
		require.NoError(t, c.Close())
		isolateAll(t, e, 2, 3)
		began := time.Now()
		c, again := attachRaw(t, e, 1, 10*time.Second, &session)
		require.Equal(t, session.Session, again.Session)
		require.NoError(t, c.Send(rawclient.Request(1, wire.Sync{Path: "/"})))
		p, err := c.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, wire.OK, p.Err)
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, e.Sessions()[0].Server)

		require.NoError(t, c.Send(rawclient.Request(2, wire.CloseSession{})))
		requireSilence(t, c, time.Second)
		require.NoError(t, c.Close())
	})
}

func TestFollowerThatReachesLeaderWithoutQuorumRenewsSessions(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		c := connect(t, e, time.Second, e.Server(2).Addr())
		c.create("/mine", zk.FlagEphemeral)
		isolateAll(t, e, 3, 4, 5)
		began := time.Now()
		time.Sleep(2 * time.Second)
		_, err := c.Sync("/")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began), "nothing waits for the quorum")
		require.NoError(t, e.Server(3).Heal(t.Context()))
		time.Sleep(5 * time.Second)
		_, _, err = e.Get("/mine")
		require.NoError(t, err)
	})
}

func TestSyncOfFollowerWaitsForTransactionsThatWaitForQuorum(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 5})
		leaders, _ := attachRaw(t, e, 1, 10*time.Second, nil)
		defer func() { require.NoError(t, leaders.Close()) }()
		followers, _ := attachRaw(t, e, 2, 10*time.Second, nil)
		defer func() { require.NoError(t, followers.Close()) }()
		isolateAll(t, e, 3, 4, 5)
		require.NoError(t, leaders.Send(rawclient.Request(1, wire.Create{Op: wire.OpCreate, Path: "/late", ACL: wire.World})))
		time.Sleep(time.Second)
		require.NoError(t, followers.Send(rawclient.Request(1, wire.Sync{Path: "/"})))
		time.AfterFunc(time.Second, func() { _ = e.Server(3).Heal(t.Context()) }) // never fails
		began := time.Now()
		p, err := followers.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, wire.OK, p.Err)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestTransactionsWithoutQuorumAreCommittedInTheLeadersOrder(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var commits []string
		e := inMemory(t, zktest.Options{Servers: 3, OnCommit: func(c zktest.Commit) { commits = append(commits, c.Op+c.Path) }})
		expires, _ := attachRaw(t, e, 1, time.Second, nil)
		defer func() { require.NoError(t, expires.Close()) }()
		lives, _ := attachRaw(t, e, 1, 10*time.Second, nil)
		defer func() { require.NoError(t, lives.Close()) }()
		isolateAll(t, e, 2, 3)
		require.NoError(t, expires.Send(rawclient.Request(1, wire.Create{Op: wire.OpCreate, Path: "/before", ACL: wire.World})))
		time.Sleep(2 * time.Second)
		require.NoError(t, lives.Send(rawclient.Request(1, wire.Create{Op: wire.OpCreate, Path: "/after", ACL: wire.World})))
		time.Sleep(time.Millisecond)
		require.NoError(t, e.Server(2).Heal(t.Context()))
		p, err := expires.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, wire.OK, p.Err)
		_, err = expires.Next(maxWait)
		require.ErrorIs(t, err, rawclient.ErrEnded)
		_, err = lives.Next(maxWait)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.Equal(t, []string{"createSession", "createSession", "create/before", "closeSession", "create/after"}, commits)
	})
}

func TestSessionThatIsClosedAndExpiresWithoutQuorumEndsOnce(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var ends []bool
		e := inMemory(t, zktest.Options{Servers: 3, OnCommit: func(c zktest.Commit) {
			if c.Op == "closeSession" {
				ends = append(ends, c.Expired)
			}
		}})
		c, _ := attachRaw(t, e, 1, time.Second, nil)
		defer func() { require.NoError(t, c.Close()) }()
		isolateAll(t, e, 2, 3)
		require.NoError(t, c.Send(rawclient.Request(1, wire.CloseSession{})))
		time.Sleep(2 * time.Second)
		require.NoError(t, e.Server(2).Heal(t.Context()))
		p, err := c.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, wire.OK, p.Err)
		require.NoError(t, e.Close())
		require.Equal(t, []bool{false}, ends)
	})
}

// The leader checks where a session is attached when the request arrives.
func TestWriteThatWaitsForQuorumIsCommittedAfterItsClientHasMoved(t *testing.T) {
	for _, leader := range []int{1, 2} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{Servers: 5})
			if leader == 2 { // server 1 is then a follower whose requests could be forwarded first
				require.NoError(t, e.Server(1).Kill(t.Context()))
				require.Equal(t, leader, awaitLeader(t, e).ID())
				require.NoError(t, e.Server(1).Start(t.Context()))
			}
			c, session := attachRaw(t, e, leader, 10*time.Second, nil)
			defer func() { require.NoError(t, c.Close()) }()
			isolateAll(t, e, 3, 4, 5)
			require.NoError(t, c.Send(rawclient.Request(1, wire.Create{Op: wire.OpCreate, Path: "/late", ACL: wire.World})))
			time.Sleep(time.Millisecond)
			again, _ := attachRaw(t, e, 3-leader, 10*time.Second, &session)
			defer func() { require.NoError(t, again.Close()) }()
			require.NoError(t, e.Server(3).Heal(t.Context()))
			_, _, err := e.Get("/late")
			require.NoError(t, err)
		})
	}
}
