// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A conn that outlives its session would open another by itself, and spin on a
// dialer that refuses without saying that a round is full.
func TestDeadConnStopsDialling(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		time.Sleep(time.Second)
		before := runtime.NumGoroutine()
		old, conn := newest(client), client.Conn()
		s.expire(client.SessionID())
		synctest.Wait()
		require.ErrorIs(t, claim.Err(), recipes.ErrSessionExpired)
		time.Sleep(2 * time.Second)
		require.NotSame(t, old, newest(client), "the next session is there")
		require.Equal(t, 3, int(s.dials.Load()), "the first, the one that reports the expiry, the next session's")

		time.Sleep(time.Hour)
		require.Equal(t, 3, int(s.dials.Load()))
		require.Equal(t, zk.StateDisconnected, conn.State())
		require.LessOrEqual(t, runtime.NumGoroutine(), before, "nothing of the old session is left")
	})
}

// The server sends the event of the deletion before it ends the connection.
func TestClaimOnAWatchedNodeIsDeletedWhereAnOperatorExpiresItsSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		time.AfterFunc(testTimeout/12, func() { s.delete(another) })
		claim := claimed(t, client)
		s.expire(client.SessionID())
		synctest.Wait()
		require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
		again := claimed(t, client)
		require.Greater(t, again.Token(), claim.Token())
	})
}

func TestConnOfEndedSessionIsClosedThoughNoServerReportsTheEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		time.Sleep(time.Second)
		before := runtime.NumGoroutine()
		old := newest(client)
		old.End(recipes.ErrSessionExpired)
		time.Sleep(2 * time.Second)
		require.NotSame(t, old, newest(client))
		require.Equal(t, 2, int(s.dials.Load()))
		time.Sleep(time.Hour)
		require.Equal(t, 2, int(s.dials.Load()))
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
	})
}

func TestRequestQueuedAcrossExpiryNeverRunsInTheNextSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		old := client.SessionID()
		s.detach()
		synctest.Wait()
		// The caller's own request, which nothing keeps out of the client's queue.
		result := make(chan error, 1)
		conn := client.Conn()
		go func() {
			_, err := conn.Create("/queued", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			result <- err
		}()
		time.Sleep(time.Second)
		s.expire(old)
		s.heal()

		claim := claimed(t, client)
		require.NotEqual(t, old, client.SessionID())
		require.Error(t, <-result)
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		require.Empty(t, s.seen(func(r zktest.Request) bool { return r.Path == "/queued" }))
	})
}

func TestEachSessionHasAConnOfItsOwn(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		for range 3 {
			conn, id := client.Conn(), client.SessionID()
			require.Equal(t, id, conn.SessionID())
			s.expire(id)
			time.Sleep(2 * time.Second)
			require.NotSame(t, conn, client.Conn())
			require.NotEqual(t, id, client.SessionID())
		}
	})
}

func TestSessionIsTakenUpWithTheSameIDByTheNextServer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		attached := make(chan string, 16)
		opts := s.options()
		opts.Trace = &recipes.Trace{Attached: func(e recipes.SessionEvent) { attached <- e.Server }}
		client := s.connect(opts)
		claim := claimed(t, client)
		id, first := client.SessionID(), newest(client).Server()
		for range 3 {
			began := time.Now()
			s.link.Reset()
			require.NotEqual(t, first, <-attached)
			require.Less(t, time.Since(began), 100*time.Millisecond, "no second is lost")
			first = newest(client).Server()
			time.Sleep(time.Minute)
		}
		require.Equal(t, id, client.SessionID())
		require.NoError(t, claim.Err())
	})
}

// The client reads its last zxid in one goroutine while it sends its watches
// again, and writes it in another that handles replies: without the gate, the
// race detector fails this test.
func TestWatchesAreSentAgainWithoutADataRace(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		waiting, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			go func() { _, _ = newQueue(t, client, nil).Claim(waiting) }()
		}
		synctest.Wait()
		for range 20 {
			s.link.Reset()
			time.Sleep(time.Second)
			require.NoError(t, claim.Check(t.Context()))
		}
		sent := s.seen(isOp("setWatches", "setWatches2"))
		require.Len(t, sent, 20)
	})
}

func TestExpiredClaimReportsThatTheSessionIsOverAndTheNextOneServes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		s.expire(client.SessionID())
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), recipes.ErrLost)
		require.ErrorIs(t, claim.Err(), recipes.ErrSessionExpired)
		require.NotErrorIs(t, claim.Err(), recipes.ErrDeadline)
		next := claimed(t, client)
		require.Greater(t, next.Token(), claim.Token())
	})
}

func TestConnectThatFailsLeavesNothingBehind(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.partition()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := runtime.NumGoroutine()
		_, err := recipes.Connect(ctx, s.Addrs()[:1], s.options())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		dialled := int(s.dials.Load())
		time.Sleep(time.Hour)
		require.Equal(t, dialled, int(s.dials.Load()))
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
		s.heal()
	})
}

func TestRefusedDialIsNamedByConnect(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		opts := &recipes.Options{SessionTimeout: testTimeout, Logger: slog.New(slog.DiscardHandler)}
		opts.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errUnreachable }
		_, err := recipes.Connect(ctx, []string{"zk1", "zk2"}, opts)
		require.ErrorIs(t, err, errUnreachable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "zk1:2181: ")
		require.ErrorContains(t, err, "zk2:2181: ")
	})
}
