// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// However a term ends, the candidate's next one begins only after the work of
// this one has returned, and another's not before this one was notified; not before
// its work has returned, if the term was not lost.
func TestTermEndsBeforeTheNextBegins(t *testing.T) {
	// Each ends a term whose work goes on, and the work is notified.
	ways := []struct {
		name string
		held bool // the term was not lost: it is held until the work returns
		end  func(w *workCall)
	}{
		{"Run's context ends", true, func(w *workCall) {
			w.who.stop()
			require.ErrorIs(w.env.t, w.notified(), errStopped)
		}},
		{"resigned", false, func(w *workCall) {
			// Others know that the node is gone before it does.
			w.who.proxy.Delay(docker.ToClient, 200*time.Millisecond)
			w.env.resign(w.term)
			w.who.proxy.Delay(docker.ToClient, 0)
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrReleased)
		}},
		{"node deleted", false, func(w *workCall) {
			w.deleteNode()
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrDeleted)
		}},
		{"cut off", false, func(w *workCall) {
			session := w.who.client.SessionID()
			w.who.proxy.Swallow(docker.Both)
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrDeadline)
			// Back before its work has stopped, it could campaign.
			w.env.expires(session)
			w.who.proxy.Pass()
			w.env.eventually("a new session", func() bool { return w.who.client.SessionID() != session })
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			termLog := s.termLog()
			for _, id := range []string{"a", "b", "c"} {
				termLog.candidate(election.Options{ID: id})
			}
			first := termLog.next()
			require.Equal(t, "a", first.who.id)
			way.end(first)
			if way.held {
				for range 3 {
					require.NoError(t, first.term.Check(s.ctx), "held while the work stops")
					first.who.beat(1)
				}
				require.True(t, termLog.idle(), "no other candidate leads")
				first.returns(first.ctx.Err())
				require.NoError(t, first.who.result())
				first.who.run()
			} else {
				for range 6 {
					other := termLog.next()
					require.NotEqual(t, "a", other.who.id, "its last work has not returned")
					other.returns(nil)
				}
				require.False(t, first.who.over())
				first.returns(context.Cause(first.ctx))
			}
			for {
				w := termLog.next()
				w.returns(nil)
				if w.who == first.who {
					return
				}
			}
		})
	}
}

// Several candidates of one process, and of one client, exclude each other like
// those of several.
func TestTermsOfOneClientDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	const candidates, terms = 4, 10
	errs := make(chan error, candidates)
	led := 0 // by all: the election alone guards it
	for i := range candidates {
		e := s.election(client, "election", fmt.Sprint(i))
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

func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	var opts recipes.Options
	life := s.mortal(&opts)
	client := s.connect(opts)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()

	losses := []struct {
		cause error
		lose  func(*election.Term)
	}{
		{recipes.ErrDeleted, func(term *election.Term) { require.NoError(t, s.zk.Delete(term.Path(), -1)) }},
		{recipes.ErrSessionExpired, func(*election.Term) { life.expire() }},
		{recipes.ErrReleased, s.resign},
	}
	var before *election.Term
	err := s.election(client, "election", "").Run(ctx, func(ctx context.Context, term *election.Term) error {
		if before != nil {
			require.Greater(t, term.Token(), before.Token())
			require.NotEqual(t, term.Path(), before.Path())
		}
		before = term
		if len(losses) == 0 {
			cancel()
			return nil
		}
		loss := losses[0]
		losses = losses[1:]
		loss.lose(term)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), recipes.ErrLost)
		require.ErrorIs(t, context.Cause(ctx), loss.cause)
		return fmt.Errorf("work: %w", context.Cause(ctx))
	})
	require.NoError(t, err)
	require.Empty(t, losses)
}

// That a resignation is not answered is no reason to end: it goes on in the
// background, and so does Run.
func TestRunCampaignsAgainAfterAResignationInDoubt(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	c := termLog.candidate(election.Options{ReleaseTimeout: 100 * time.Millisecond})
	first := termLog.next()
	c.proxy.Swallow(docker.Both)
	first.returns(nil)
	s.eventually("the end of the term", func() bool { return first.term.Err() != nil })
	require.ErrorIs(t, first.term.Err(), recipes.ErrReleased)
	require.ErrorIs(t, first.term.Resign(s.ctx), recipes.ErrUncertain)
	c.proxy.Pass()
	second := termLog.next()
	require.Greater(t, second.term.Token(), first.term.Token())
	require.False(t, c.over())
}

// A resource that refuses the token knows of the loss before the candidate does.
func TestRunCampaignsAgainAfterARefusalAsStale(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	termLog.candidate(election.Options{})
	first := termLog.next()
	first.deleteNode()
	stale := &fencing.StaleError{Token: first.term.Token(), Newest: first.term.Token() + 1}
	first.returns(fmt.Errorf("write: %w", stale))
	second := termLog.next()
	require.Greater(t, second.term.Token(), first.term.Token())
	require.False(t, first.who.over())
}

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
	t.Run("a cancellation of its own", func(t *testing.T) {
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
	// overrun lets a work go on after Run was ended and has returned, with another
	// candidate in line.
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
		require.ErrorIs(t, err, errStopped, "why it was to stop")
		require.ErrorContains(t, err, "100ms")
		require.Error(t, w.ctx.Err())
		for range 3 {
			require.NoError(t, w.term.Check(s.ctx), "no other candidate may lead")
			c.beat(1)
		}
		require.False(t, next.over())
		return s, w, next
	}
	t.Run("and keeps others out until the work has returned", func(t *testing.T) {
		t.Parallel()
		s, w, next := overrun(t)
		w.returns(nil)
		term := next.won()
		require.ErrorIs(t, w.term.Err(), recipes.ErrReleased)
		s.resign(term)
	})
	t.Run("and keeps others out until the session is over", func(t *testing.T) {
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

func TestRunSurvivesAPanicByResigningFirst(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	c := termLog.candidate(election.Options{})
	w := termLog.next()
	next := s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", "next"))
	s.waiting("election", 2)

	w.panics(fmt.Errorf("row 7: %w", io.ErrUnexpectedEOF))
	require.NoError(t, c.result())
	require.ErrorIs(t, w.term.Err(), recipes.ErrReleased)
	exists, _, err := s.zk.Exists(w.term.Path())
	require.NoError(t, err)
	require.False(t, exists, "when the panic goes on, the term is over")
	panicked, ok := c.panicked.(*election.PanicError)
	require.True(t, ok, "%v", c.panicked)
	require.ErrorIs(t, panicked, io.ErrUnexpectedEOF)
	require.Contains(t, string(panicked.Stack), "(*workCall).panics", "the stack is the work's")
	s.resign(next.won())
}

// What ends the work's goroutine, as FailNow of a test does, ends Run's.
func TestRunEndsWithTheGoroutineOfItsWork(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	c := termLog.candidate(election.Options{})
	w := termLog.next()
	w.exits()
	require.NoError(t, c.result())
	require.Nil(t, c.panicked)
	require.ErrorIs(t, w.term.Err(), recipes.ErrReleased)
	require.Empty(t, s.nodes("election"))
}

func TestRunWaitsForTheCoolDown(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	const coolDown = 500 * time.Millisecond
	termLog.candidate(election.Options{CoolDown: coolDown})
	for range 2 {
		w := termLog.next()
		ended := time.Now()
		w.returns(nil)
		next := termLog.next()
		require.GreaterOrEqual(t, time.Since(ended), coolDown)
		next.returns(nil)
	}
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
