// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestRunReturnsTheWorksError(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("term lost %v", lost), func(t *testing.T) {
			t.Parallel()
			s := recipetest.New(t)
			termLog := s.TermLog()
			c := termLog.Candidate(election.Options{})
			w := termLog.Next()
			if lost {
				w.DeleteNode()
				require.ErrorIs(t, w.Notified(), recipes.ErrDeleted)
			}
			failure := errors.New("disk is full")
			w.Returns(failure)
			err := c.Result()
			require.ErrorIs(t, err, failure)
			require.NotErrorIs(t, err, recipes.ErrLost)
			require.Empty(t, s.Nodes("election"))
		})
	}
	t.Run("a cancellation by the work itself", func(t *testing.T) {
		t.Parallel()
		s := recipetest.New(t)
		termLog := s.TermLog()
		c := termLog.Candidate(election.Options{})
		// The term is held and Run was not ended: the work stopped by itself.
		termLog.Next().Returns(fmt.Errorf("fetch: %w", context.DeadlineExceeded))
		require.ErrorIs(t, c.Result(), context.DeadlineExceeded)
		require.Empty(t, s.Nodes("election"))
	})
}

func TestRunReturnsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	termLog := s.TermLog()
	leader := termLog.Candidate(election.Options{Owner: "leader"})
	w := termLog.Next()
	waiter := termLog.Candidate(election.Options{Owner: "waiter"})

	waiter.Client.Close()
	require.ErrorIs(t, waiter.Result(), recipes.ErrClosed)
	leader.Client.Close()
	require.ErrorIs(t, w.Notified(), recipes.ErrClosed)
	w.Returns(context.Cause(w.Ctx))
	require.ErrorIs(t, leader.Result(), recipes.ErrClosed)
}

func TestRunReportsOverrun(t *testing.T) {
	t.Parallel()
	// overrun returns work that continues after Run has returned ErrOverrun, and a queued candidate.
	overrun := func(t *testing.T) (s *recipetest.Env, w *recipetest.WorkCall, next *recipetest.Campaigning) {
		t.Helper()
		s = recipetest.New(t)
		s.SessionTimeout = 4 * time.Second // the test waits for heartbeats
		termLog := s.TermLog()
		c := termLog.Candidate(election.Options{StopTimeout: 100 * time.Millisecond})
		w = termLog.Next()
		next = s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", "next"))
		s.Waiting("election", 2)
		c.Stop()
		err := c.Result()
		require.ErrorIs(t, err, election.ErrOverrun)
		require.ErrorIs(t, err, recipetest.ErrStopped, "the cause of the stop")
		require.ErrorContains(t, err, "100ms")
		require.Error(t, w.Ctx.Err())
		for range 3 {
			require.NoError(t, w.Term.Check(s.Ctx), "no other candidate may lead")
			c.Beat(1)
		}
		require.False(t, next.Over())
		return s, w, next
	}
	t.Run("and excludes others until the work has returned", func(t *testing.T) {
		t.Parallel()
		s, w, next := overrun(t)
		w.Returns(nil)
		term := next.Won()
		require.ErrorIs(t, w.Term.Err(), recipes.ErrReleased)
		s.Resign(term)
	})
	t.Run("and excludes others until the session has ended", func(t *testing.T) {
		t.Parallel()
		s, w, next := overrun(t)
		w.Who.Client.Close()
		s.Resign(next.Won())
		require.ErrorIs(t, w.Term.Err(), recipes.ErrClosed)
		w.Returns(nil)
	})
	t.Run("after a loss, with its cause", func(t *testing.T) {
		t.Parallel()
		s := recipetest.New(t)
		termLog := s.TermLog()
		c := termLog.Candidate(election.Options{StopTimeout: 100 * time.Millisecond})
		w := termLog.Next()
		w.DeleteNode()
		err := c.Result()
		require.ErrorIs(t, err, election.ErrOverrun)
		require.ErrorIs(t, err, recipes.ErrDeleted)
		w.Returns(nil)
	})
}

func TestRunReturnsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	s.Forbidden("election")
	client := s.Connect(recipes.Options{})
	err := s.Election(client, "election", "").Run(s.Ctx, func(context.Context, *election.Term) error {
		return errors.New("led without permission")
	})
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.ErrorContains(t, err, s.Path("election"))
}
