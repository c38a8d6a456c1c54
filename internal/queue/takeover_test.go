// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/together"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// breadcrumbPath is the node in which the holders of /l leave their breadcrumbs.
const breadcrumbPath = "/l-breadcrumb"

// lockDelay is the delay of these tests: shorter than the time after which a client leaves a server that does not answer.
const lockDelay = nodeTimeout / 16

// delayed returns the queue /l of a client, with the lock-delay.
func (s servers) delayed(client *recipes.Client) *queue.Queue {
	s.Helper()
	q, err := queue.New(client, "/l", &queue.Options{LockDelay: lockDelay})
	require.NoError(s, err)
	return q
}

func (s servers) claimOf(q *queue.Queue) *recipes.Claim {
	s.Helper()
	c, err := q.Claim(s.Context())
	require.NoError(s, err)
	return c
}

// cycle claims a known path and releases it, and returns the number of requests of each.
func (s servers) cycle(q *queue.Queue) (claim, release int) {
	s.Helper()
	s.must(q.Release(s.Context(), s.claimOf(q)))
	counted := s.Intercept(zktest.Rule{When: func(r zktest.Request) bool {
		heartbeat := r.Op == "multi"
		for _, op := range r.Ops {
			heartbeat = heartbeat && op.Op == "check"
		}
		return r.Op != "ping" && !heartbeat
	}})
	defer counted.Remove()
	c := s.claimOf(q)
	claim = sum(counted)
	s.must(q.Release(s.Context(), c))
	return claim, sum(counted) - claim
}

// Other contenders, and those without the options, pay nothing for them.
func TestBreadcrumbCostsTwoRequestsPerClaimAndNonePerRelease(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		claim, release := s.cycle(s.delayed(client))
		t.Logf("%d requests to claim, %d to release", claim, release)
		require.Equal(s, 3, claim, "join, read the breadcrumb, write it")
		require.Equal(s, 1, release, "delete the node and clear the breadcrumb")
		plain, err := queue.New(client, "/plain", nil)
		s.must(err)
		claim, release = s.cycle(plain)
		require.Equal(s, 1, claim)
		require.Equal(s, 1, release)
		_, _, err = s.Get("/plain-breadcrumb")
		require.Error(s, err)
	})
}

// An operator deletes the node of a holder whose release is under way, and another client takes over.
func TestReleaseThatArrivesAfterTheNextHolderKeepsItsBreadcrumb(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		other, _ := s.connect()
		q := s.delayed(client)
		c := s.claimOf(q)
		late := link.Intercept(zktest.Rule{Op: "multi", Times: 1, Hold: zktest.ToServer, When: func(r zktest.Request) bool {
			return r.Ops[0].Op == "delete"
		}})
		released := make(chan error)
		go func() { released <- q.Release(s.Context(), c) }()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		s.must(s.Ensemble.Delete(c.Path()))
		began := time.Now()
		go func() { time.Sleep(lockDelay * 3 / 2); late.Release() }()
		next := s.claimOf(s.delayed(other))
		require.GreaterOrEqual(s, time.Since(began), lockDelay)
		require.ErrorIs(s, <-released, recipes.ErrLost)
		require.Contains(s, s.data(breadcrumbPath), `"token":"`+next.Token().String()+`"`)
		s.must(next.Check(s.Context()))
	})
}

func TestNodeThatIsNoBreadcrumbIsReportedAndKept(t *testing.T) {
	for _, data := range []string{"mine", `{"format":2}`, `{"format":1,"token":-1}`, `[]`, `{"format":1,"token":"x"}`} {
		withServers(t, func(s servers) {
			s.must(s.Create(breadcrumbPath, []byte(data)))
			client, _ := s.connect()
			_, err := s.delayed(client).Claim(s.Context())
			require.ErrorContains(s, err, "update /l-breadcrumb: the node")
			require.ErrorContains(s, err, "a breadcrumb")
			require.Equal(s, data, s.data(breadcrumbPath))
			require.Zero(s, client.OutstandingNodes())
		})
	}
	withServers(t, func(s servers) {
		s.must(s.Create(breadcrumbPath, nil)) // by an operator, in advance
		client, _ := s.connect()
		q := s.delayed(client)
		c := s.claimOf(q)
		s.must(s.Set(breadcrumbPath, []byte("mine")))
		s.must(q.Release(s.Context(), c)) // the lock is free, whatever the other node contains
		require.Equal(s, "mine", s.data(breadcrumbPath))
	})
}

func TestQueueWithLockDelayRefusesSharedAndJointClaims(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		q := s.delayed(client)
		const why = "a lock-delay and a fence function are possible for exclusive claims only"
		for _, mode := range []protocol.Mode{protocol.Read, protocol.Write} {
			_, err := q.ClaimAs(s.Context(), mode)
			require.EqualError(s, err, "claim /l: "+why)
			_, err = q.TryAs(s.Context(), mode)
			require.EqualError(s, err, "claim /l: "+why)
		}
		_, err := permits.New(q, 3)
		require.EqualError(s, err, "new permits /l: "+why)
		plain, err := queue.New(client, "/m", nil)
		s.must(err)
		_, err = together.Claim(s.Context(), together.Part{Queue: plain}, together.Part{Queue: q})
		require.EqualError(s, err, "claim /l: a queue with a lock-delay or a fence function is claimed alone")
		require.NotErrorIs(s, err, together.ErrApart)
		require.Zero(s, client.OutstandingNodes())
		_, err = queue.New(client, "/l", &queue.Options{LockDelay: -1})
		require.EqualError(s, err, "new queue: lock-delay -1ns is negative")
		_, err = queue.New(client, "/"+strings.Repeat("x/", 10), &queue.Options{LockDelay: 1})
		require.ErrorContains(s, err, "new queue: ")
	})
}

func TestLossDuringTheLockDelayIsNotReportedAsALossOfAHold(t *testing.T) {
	withServers(t, func(s servers) {
		first, _ := s.connect()
		s.claimOf(s.delayed(first))
		first.Close()
		var granted, lost int
		link := s.Link()
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
			SessionTimeout: nodeTimeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler), Trace: &recipes.Trace{
				Granted: func(recipes.QueueEvent) { granted++ },
				Lost:    func(recipes.QueueEvent) { lost++ },
			},
		})
		s.must(err)
		session := client.SessionID()
		go func() { time.Sleep(lockDelay / 2); _ = s.Expire(context.Background(), session) }()
		c := s.claimOf(s.delayed(client))
		require.NotEqual(s, session, client.SessionID())
		s.must(c.Err())
		client.Close()
		require.Equal(s, 1, granted)
		require.Equal(s, 1, lost, "by Close")
	})
}
