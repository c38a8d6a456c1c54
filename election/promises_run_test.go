// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Candidates of one client exclude each other as candidates of several clients do.
func TestTermsOfOneClientDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	const candidates, terms = 4, 10
	errs := make(chan error, candidates)
	led := 0 // guarded by the election alone
	for i := range candidates {
		e := s.Election(client, "election", fmt.Sprint(i))
		go func() {
			errs <- e.Run(ctx, func(context.Context, *election.Term) error {
				if led++; led >= candidates*terms {
					cancel()
				}
				return nil
			})
		}()
	}
	for range candidates {
		require.NoError(t, <-errs)
	}
	require.GreaterOrEqual(t, led, candidates*terms)
}

// A resource can reject a stale token before the candidate is notified of the loss.
func TestRunCampaignsAgainAfterARefusalAsStale(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	termLog := s.TermLog()
	termLog.Candidate(election.Options{})
	first := termLog.Next()
	first.DeleteNode()
	stale := &fencing.StaleError{Token: first.Term.Token(), Newest: first.Term.Token() + 1}
	first.Returns(fmt.Errorf("write: %w", stale))
	second := termLog.Next()
	require.Greater(t, second.Term.Token(), first.Term.Token())
	require.False(t, first.Who.Over())
}

func TestRunSurvivesAPanicByResigningFirst(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	termLog := s.TermLog()
	c := termLog.Candidate(election.Options{})
	w := termLog.Next()
	next := s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", "next"))
	s.Waiting("election", 2)

	w.Panics(fmt.Errorf("row 7: %w", io.ErrUnexpectedEOF))
	require.NoError(t, c.Result())
	require.ErrorIs(t, w.Term.Err(), recipes.ErrReleased)
	exists, _, err := s.ZK.Exists(w.Term.Path())
	require.NoError(t, err)
	require.False(t, exists, "the term has ended before the panic continues")
	panicked, ok := c.Panicked.(*election.PanicError)
	require.True(t, ok, "%v", c.Panicked)
	require.ErrorIs(t, panicked, io.ErrUnexpectedEOF)
	require.Contains(t, string(panicked.Stack), "(*WorkCall).Panics", "the stack shows the work")
	s.Resign(next.Won())
}

// Goexit in the work, which a test's FailNow calls, ends the goroutine of Run, too.
func TestRunEndsWithTheGoroutineOfItsWork(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	termLog := s.TermLog()
	c := termLog.Candidate(election.Options{})
	w := termLog.Next()
	w.Exits()
	require.NoError(t, c.Result())
	require.Nil(t, c.Panicked)
	require.ErrorIs(t, w.Term.Err(), recipes.ErrReleased)
	require.Empty(t, s.Nodes("election"))
}

func TestRunWaitsForTheCoolDown(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	termLog := s.TermLog()
	const coolDown = 500 * time.Millisecond
	termLog.Candidate(election.Options{CoolDown: coolDown})
	for range 2 {
		w := termLog.Next()
		ended := time.Now()
		w.Returns(nil)
		next := termLog.Next()
		require.GreaterOrEqual(t, time.Since(ended), coolDown)
		next.Returns(nil)
	}
}
