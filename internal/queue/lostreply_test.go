// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

type recovery struct {
	found bool
	err   error
}

// recovering returns options whose trace records the outcome of each recovered create.
func recovering(s *ensemble) (opts *recipes.Options, found *[]recovery) {
	found = new([]recovery)
	opts = s.options()
	opts.Trace = &recipes.Trace{Recovered: func(e recipes.QueueEvent) { *found = append(*found, recovery{e.Found, e.Err}) }}
	return opts, found
}

func TestLostReplyOfCreateIsFoundAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts, recovered := recovering(s)
		client := s.connect(opts)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
		require.Equal(t, s.czxid(claim.Path()), int64(claim.Token()))
		require.Equal(t, 1, client.OutstandingNodes())
		synctest.Wait()
		require.Equal(t, []recovery{{found: true}}, *recovered)
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		require.NoError(t, newQueue(t, client, nil).Release(t.Context(), claim))
		require.Empty(t, s.queue())
	})
}

func TestLostRequestOfCreateIsSentAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts, recovered := recovering(s)
		client := s.connect(opts)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToServer})
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		synctest.Wait()
		require.Equal(t, []recovery{{found: false}}, *recovered)
	})
}

func TestLostReplyOfCreateBehindOthersIsFoundAgainAndWaits(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(time.Minute)
		requireWaiting(t, result, "another contender is ahead")
		require.Len(t, s.queue(), 2)
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

func TestCreateThatIsAnsweredAfterItsCallerGaveUpLeavesNoNode(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{When: isJoin, Delay: time.Second}) // too short for the session to leave the server
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		require.Len(t, s.seen(isJoin), 1)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.seen(isOp("connect")), 1)
	})
}

// The cause of a context can be any error, also a server's answer to another request.
func TestCauseThatLooksLikeAServersAnswerIsNotTakenForOne(t *testing.T) {
	for _, answer := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, session.NotSent(io.EOF)} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Delay: time.Second}) // too short for the session to leave the server
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := fmt.Errorf("worker: %w", answer)
			time.AfterFunc(time.Second/2, func() { cancel(cause) })
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
			require.Len(t, s.seen(isJoin), 1, "%v", cause)
			time.Sleep(2 * time.Second)
			require.Empty(t, s.queue(), "%v", cause)
			require.Zero(t, client.OutstandingNodes())
		})
	}
}

// A code that the client has no name for can be a quota's.
func TestCreateThatIsAnsweredWithACodeWithoutANameFailsOnce(t *testing.T) {
	for _, parent := range []string{string(protocol.ParentData(0)), "theirs"} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/l", parent)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Times: 100, Fail: zktest.ErrQuotaExceeded})
			_, err := newQueue(t, client, nil).Claim(t.Context())
			require.ErrorContains(t, err, "-125", parent)
			require.Len(t, s.seen(isJoin), 1, parent)
			require.Empty(t, s.queue(), parent)
			require.Zero(t, client.OutstandingNodes(), parent)
		})
	}
}

func TestCreateThatIsNeverAnsweredLeavesNoNode(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"carried out": zktest.ToClient, "not carried out": zktest.ToServer} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Times: 1, Hold: v})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			began := time.Now()
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.LessOrEqual(t, time.Since(began), time.Second/2+testTimeout, "the release timeout bounds what it still does")
			time.Sleep(testTimeout)
			require.Empty(t, s.queue(), name)
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

func TestNodeOfASessionThatExpiredWhileItsCreateWasInFlightIsForgotten(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		first := client.SessionID()
		s.Intercept(zktest.Rule{When: isJoin, Session: first, Before: func(zktest.Request) { s.expire(first) }})
		claim := claimed(t, client)
		require.NotEqual(t, first, client.SessionID())
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		require.Empty(t, s.seen(isOp("delete")), "nothing is deleted by name in another session")
	})
}

// The create happened under the parent of the checked node, or not at all.
func TestLostReplyOfAJoinBesideANodeOfItsSessionIsFoundAgain(t *testing.T) {
	for _, data := range []string{string(protocol.ParentData(0)), "theirs"} {
		for _, v := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
			faketime.Test(t, func(t *testing.T) {
				s := newEnsemble(t)
				s.create("/l", data)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				first, err := queue.Claim(t.Context())
				require.NoError(t, err)
				s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: v})
				joining := claiming(t.Context(), queue)
				requireWaiting(t, joining, "another contender is ahead")
				time.Sleep(testTimeout / 2)
				require.Len(t, s.queue(), 2)
				require.NoError(t, queue.Release(t.Context(), first))
				g := <-joining
				require.NoError(t, g.err)
				require.NoError(t, queue.Release(t.Context(), g.claim))
				require.Empty(t, s.queue())
				require.Zero(t, client.OutstandingNodes())
			})
		}
	}
}

func TestOwnNodeThatCannotBeReadBeforeCtxEndsIsGoneOnceTheSessionIsServed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", "theirs")
		client := s.connect(s.options())
		id := client.SessionID()
		s.Intercept(zktest.Rule{Op: "getData", Below: "/l", Times: 1, Before: func(zktest.Request) { s.refuse(3 * time.Second) }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, s.queue(), 1, "no server is there to take it away")
		require.Equal(t, 1, client.OutstandingNodes())
		time.Sleep(testTimeout / 2)
		require.Equal(t, id, client.SessionID())
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}
