// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestRunReturnsTheWorksError(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("term lost %v", lost), func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			termLog := s.termLog()
			c := termLog.candidate(election.Options{})
			w := termLog.next()
			if lost {
				w.deleteNode()
				require.ErrorIs(t, w.notified(), recipes.ErrDeleted)
			}
			failure := errors.New("disk is full")
			w.returns(failure)
			err := c.result()
			require.ErrorIs(t, err, failure)
			require.NotErrorIs(t, err, recipes.ErrLost)
			require.Empty(t, s.nodes("election"))
		})
	}
	t.Run("a cancellation by the work itself", func(t *testing.T) {
		t.Parallel()
		s := onOne(t)
		termLog := s.termLog()
		c := termLog.candidate(election.Options{})
		// The term is held and Run was not ended: the work stopped by itself.
		termLog.next().returns(fmt.Errorf("fetch: %w", context.DeadlineExceeded))
		require.ErrorIs(t, c.result(), context.DeadlineExceeded)
		require.Empty(t, s.nodes("election"))
	})
}

func TestRunReturnsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	leader := termLog.candidate(election.Options{ID: "leader"})
	w := termLog.next()
	waiter := termLog.candidate(election.Options{ID: "waiter"})

	waiter.client.Close()
	require.ErrorIs(t, waiter.result(), recipes.ErrClosed)
	leader.client.Close()
	require.ErrorIs(t, w.notified(), recipes.ErrClosed)
	w.returns(context.Cause(w.ctx))
	require.ErrorIs(t, leader.result(), recipes.ErrClosed)
}

func TestRunReportsOverrun(t *testing.T) {
	t.Parallel()
	// overrun returns work that continues after Run has returned ErrOverrun, and a queued candidate.
	overrun := func(t *testing.T) (s *env, w *workCall, next *campaigning) {
		t.Helper()
		s = onOne(t)
		termLog := s.termLog()
		c := termLog.candidate(election.Options{StopTimeout: 100 * time.Millisecond})
		w = termLog.next()
		next = s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", "next"))
		s.waiting("election", 2)
		c.stop()
		err := c.result()
		require.ErrorIs(t, err, election.ErrOverrun)
		require.ErrorIs(t, err, errStopped, "the cause of the stop")
		require.ErrorContains(t, err, "100ms")
		require.Error(t, w.ctx.Err())
		for range 3 {
			require.NoError(t, w.term.Check(s.ctx), "no other candidate may lead")
			c.beat(1)
		}
		require.False(t, next.over())
		return s, w, next
	}
	t.Run("and excludes others until the work has returned", func(t *testing.T) {
		t.Parallel()
		s, w, next := overrun(t)
		w.returns(nil)
		term := next.won()
		require.ErrorIs(t, w.term.Err(), recipes.ErrReleased)
		s.resign(term)
	})
	t.Run("and excludes others until the session has ended", func(t *testing.T) {
		t.Parallel()
		s, w, next := overrun(t)
		w.who.client.Close()
		s.resign(next.won())
		require.ErrorIs(t, w.term.Err(), recipes.ErrClosed)
		w.returns(nil)
	})
	t.Run("after a loss, with its cause", func(t *testing.T) {
		t.Parallel()
		s := onOne(t)
		termLog := s.termLog()
		c := termLog.candidate(election.Options{StopTimeout: 100 * time.Millisecond})
		w := termLog.next()
		w.deleteNode()
		err := c.result()
		require.ErrorIs(t, err, election.ErrOverrun)
		require.ErrorIs(t, err, recipes.ErrDeleted)
		w.returns(nil)
	})
}

func TestRunReturnsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	s.forbidden("election")
	client := s.connect(recipes.Options{})
	err := s.election(client, "election", "").Run(s.ctx, func(context.Context, *election.Term) error {
		return errors.New("led without permission")
	})
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.ErrorContains(t, err, s.path("election"))
}
