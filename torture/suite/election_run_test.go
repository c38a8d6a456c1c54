// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// However a term ends, the candidate's next term begins only after the work of this one has returned. Another candidate's term
// begins only after this one's work was notified; if the term was not lost, only after the work has returned.
func TestTermEndsBeforeTheNextBegins(t *testing.T) {
	// Each end notifies work that continues.
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
			// Other clients see that the node is gone before this one does.
			w.who.proxy.Delay(docker.ToClient, 200*time.Millisecond)
			w.env.resign(w.term)
			w.who.proxy.Delay(docker.ToClient, 0)
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrReleased)
		}},
		{"node deleted", false, func(w *workCall) {
			w.deleteNode()
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrDeleted)
		}},
		{"partitioned", false, func(w *workCall) {
			session := w.who.client.SessionID()
			w.who.proxy.Drop(docker.Both)
			require.ErrorIs(w.env.t, w.notified(), recipes.ErrDeadline)
			// Connected again before its work has stopped, it could campaign.
			w.env.expires(session)
			w.who.proxy.Heal()
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
					require.NoError(t, first.term.Check(s.ctx), "the term is held while the work stops")
					first.who.beat(1)
				}
				require.True(t, termLog.idle(), "no other candidate leads")
				first.returns(first.ctx.Err())
				require.NoError(t, first.who.result())
				first.who.run()
			} else {
				for range 6 {
					other := termLog.next()
					require.NotEqual(t, "a", other.who.id, "its previous work has not returned")
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

// Candidates of one client exclude each other as those of several clients do.
func TestTermsOfOneClientDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	const candidates, terms = 4, 10
	errs := make(chan error, candidates)
	led := 0 // guarded by the election alone
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
	ender := s.sessionEnder(&opts)
	client := s.connect(opts)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()

	losses := []struct {
		cause error
		lose  func(*election.Term)
	}{
		{recipes.ErrDeleted, func(term *election.Term) { require.NoError(t, s.zk.Delete(term.Path(), -1)) }},
		{recipes.ErrSessionExpired, func(*election.Term) { ender.expire() }},
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

// An unanswered resignation continues in the background, and Run campaigns again.
func TestRunCampaignsAgainAfterAResignationInDoubt(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	termLog := s.termLog()
	c := termLog.candidate(election.Options{ReleaseTimeout: 100 * time.Millisecond})
	first := termLog.next()
	c.proxy.Drop(docker.Both)
	first.returns(nil)
	s.eventually("the end of the term", func() bool { return first.term.Err() != nil })
	require.ErrorIs(t, first.term.Err(), recipes.ErrReleased)
	require.ErrorIs(t, first.term.Resign(s.ctx), recipes.ErrUncertain)
	c.proxy.Heal()
	second := termLog.next()
	require.Greater(t, second.term.Token(), first.term.Token())
	require.False(t, c.over())
}

// A resource can reject a stale token before the candidate is notified of the loss.
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
	require.False(t, exists, "the term has ended before the panic continues")
	panicked, ok := c.panicked.(*election.PanicError)
	require.True(t, ok, "%v", c.panicked)
	require.ErrorIs(t, panicked, io.ErrUnexpectedEOF)
	require.Contains(t, string(panicked.Stack), "(*workCall).panics", "the stack is that of the work")
	s.resign(next.won())
}

// Goexit in the work, which a test's FailNow calls, ends the goroutine of Run, too.
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
