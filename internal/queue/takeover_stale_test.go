// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// fencedBy returns the queue /l of a client, with the fence function.
func (s servers) fencedBy(client *recipes.Client, fence func(context.Context, recipes.FormerHolder) error) *queue.Queue {
	s.Helper()
	q, err := queue.New(client, "/l", &queue.Options{Fence: fence})
	require.NoError(s, err)
	return q
}

// An operator deletes the node of a claim that is about to read the breadcrumb, and another client
// takes over: then the breadcrumb is the present holder's.
func TestHolderThatHasOvertakenTheClaimIsNotFenced(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		other, _ := s.connect()
		var fenced []recipes.FormerHolder
		q := s.fencedBy(client, func(_ context.Context, former recipes.FormerHolder) error {
			fenced = append(fenced, former)
			return nil
		})
		s.must(q.Release(s.Context(), s.claimOf(q)))
		read := link.Intercept(zktest.Rule{Op: "getData", Path: breadcrumbPath, Times: 1, Hold: zktest.ToServer})
		claims := make(chan *recipes.Claim, 1)
		go func() {
			defer close(claims)
			if c, err := q.Claim(s.Context()); err == nil {
				claims <- c
			}
		}()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		require.Equal(s, 1, sum(read))
		nodes, err := s.Children("/l")
		s.must(err)
		require.Len(s, nodes, 1)
		s.must(s.Ensemble.Delete("/l/" + nodes[0]))
		later := s.delayed(other)
		holder := s.claimOf(later)
		read.Release()
		synctest.Wait()
		time.Sleep(2 * nodeTimeout)
		s.must(holder.Err())
		require.Empty(s, fenced, "the holder %d lives", holder.Token())
		s.must(later.Release(s.Context(), holder))
		c := <-claims
		require.NotNil(s, c)
		require.Greater(s, c.Token(), holder.Token())
		require.Empty(s, fenced)
		s.must(q.Release(s.Context(), c))
	})
}

// The fence function uses ZooKeeper, too, and fails with an error after which Claim would join again
// if it were its own.
func TestErrorOfTheFenceFunctionIsReturnedWhateverItWraps(t *testing.T) {
	for _, why := range []error{recipes.ErrDeleted, recipes.ErrDeadline, recipes.ErrYielded} {
		withServers(t, func(s servers) {
			first, _ := s.connect()
			s.claimOf(s.delayed(first))
			first.Close()
			client, _ := s.connect()
			calls := 0
			q := s.fencedBy(client, func(context.Context, recipes.FormerHolder) error {
				if calls++; calls > 1 {
					return nil
				}
				return fmt.Errorf("revoke credentials: %w", why)
			})
			_, err := q.Claim(s.Context())
			require.ErrorIs(s, err, why)
			require.ErrorAs(s, err, new(*recipes.UnreleasedError))
			require.Equal(s, 1, calls)
			require.Zero(s, client.OutstandingNodes())
		})
	}
}

// Its node ends with the session, and the breadcrumb does not.
func TestReleaseOvertakenByTheEndOfTheSessionIsUncertainIfTheBreadcrumbStays(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		q, err := queue.New(client, "/l", &queue.Options{LockDelay: lockDelay, ReleaseTimeout: time.Minute})
		s.must(err)
		c := s.claimOf(q)
		link.Hold(zktest.Both)
		released := make(chan error, 1)
		go func() { released <- q.Release(s.Context(), c) }()
		synctest.Wait()
		s.must(s.Expire(s.Context(), client.SessionID()))
		link.Reset()
		link.Release()
		require.ErrorIs(s, <-released, recipes.ErrUncertain)
		require.Contains(s, s.data(breadcrumbPath), `"token":"`+c.Token().String()+`"`)
	})
}

func TestClaimThatCannotBeCheckedNamesTheFormerHolder(t *testing.T) {
	withServers(t, func(s servers) {
		first, _ := s.connect()
		former := s.claimOf(s.delayed(first))
		first.Close()
		client, link := s.connect()
		q := s.fencedBy(client, func(context.Context, recipes.FormerHolder) error {
			s.Error("fenced without a check")
			return nil
		})
		var read atomic.Bool // a heartbeat that was held before would hold the read, too
		checks := link.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool {
			if r.Op == "getData" && r.Path == breadcrumbPath {
				read.Store(true)
			}
			return read.Load() && len(r.Ops) == 1 && r.Ops[0].Op == "check"
		}})
		ctx, cancel := context.WithTimeout(s.Context(), nodeTimeout/16)
		defer cancel()
		_, err := q.Claim(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		var left *recipes.UnreleasedError
		require.ErrorAs(s, err, &left)
		require.Equal(s, former.Token(), left.Former.Token)
		checks.Remove()
	})
}
