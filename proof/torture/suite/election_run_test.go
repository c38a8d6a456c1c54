// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// However a term ends, the candidate's next term begins only after the work of this one has returned. Another candidate's term
// begins only after this one's work was notified; if the term was not lost, only after the work has returned.
func TestTermEndsBeforeTheNextBegins(t *testing.T) {
	// Each end notifies work that continues.
	ways := []struct {
		name string
		held bool // the term was not lost: it is held until the work returns
		end  func(s *env, w *recipetest.WorkCall, proxy *docker.Proxy)
	}{
		{"Run's context ends", true, func(s *env, w *recipetest.WorkCall, proxy *docker.Proxy) {
			w.Who.Stop()
			require.ErrorIs(s.T, w.Notified(), recipetest.ErrStopped)
		}},
		{"resigned", false, func(s *env, w *recipetest.WorkCall, proxy *docker.Proxy) {
			// Other clients see that the node is gone before this one does.
			proxy.Delay(docker.ToClient, 200*time.Millisecond)
			s.Resign(w.Term)
			proxy.Delay(docker.ToClient, 0)
			require.ErrorIs(s.T, w.Notified(), recipes.ErrReleased)
		}},
		{"node deleted", false, func(s *env, w *recipetest.WorkCall, proxy *docker.Proxy) {
			w.DeleteNode()
			require.ErrorIs(s.T, w.Notified(), recipes.ErrDeleted)
		}},
		{"partitioned", false, func(s *env, w *recipetest.WorkCall, proxy *docker.Proxy) {
			session := w.Who.Client.SessionID()
			proxy.Drop(docker.Both)
			require.ErrorIs(s.T, w.Notified(), recipes.ErrDeadline)
			// Connected again before its work has stopped, it could campaign.
			s.expires(session)
			proxy.Heal()
			s.Eventually("a new session", func() bool { return w.Who.Client.SessionID() != session })
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			termLog := s.TermLog()
			proxy := s.proxy(s.ensemble.Servers()[0])
			termLog.Candidate(election.Options{Owner: "a"}, proxy.Addr())
			termLog.Candidate(election.Options{Owner: "b"})
			termLog.Candidate(election.Options{Owner: "c"})
			first := termLog.Next()
			require.Equal(t, "a", first.Who.ID)
			way.end(s, first, proxy)
			if way.held {
				for range 3 {
					require.NoError(t, first.Term.Check(s.Ctx), "the term is held while the work stops")
					first.Who.Beat(1)
				}
				require.True(t, termLog.Idle(), "no other candidate leads")
				first.Returns(first.Ctx.Err())
				require.NoError(t, first.Who.Result())
				first.Who.Run()
			} else {
				for range 6 {
					other := termLog.Next()
					require.NotEqual(t, "a", other.Who.ID, "its previous work has not returned")
					other.Returns(nil)
				}
				require.False(t, first.Who.Over())
				first.Returns(context.Cause(first.Ctx))
			}
			for {
				w := termLog.Next()
				w.Returns(nil)
				if w.Who == first.Who {
					return
				}
			}
		})
	}
}

func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	var opts recipes.Options
	ender := s.sessionEnder(&opts)
	client := s.Connect(opts)
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()

	losses := []struct {
		cause error
		lose  func(*election.Term)
	}{
		{recipes.ErrDeleted, func(term *election.Term) { require.NoError(t, s.ZK.Delete(term.Path(), -1)) }},
		{recipes.ErrSessionExpired, func(*election.Term) { ender.expire() }},
		{recipes.ErrReleased, s.Resign},
	}
	var before *election.Term
	err := s.Election(client, "election", "").Run(ctx, func(ctx context.Context, term *election.Term) error {
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
	termLog := s.TermLog()
	proxy := s.proxy(s.ensemble.Servers()[0])
	c := termLog.Candidate(election.Options{ReleaseTimeout: 100 * time.Millisecond}, proxy.Addr())
	first := termLog.Next()
	proxy.Drop(docker.Both)
	first.Returns(nil)
	s.Eventually("the end of the term", func() bool { return first.Term.Err() != nil })
	require.ErrorIs(t, first.Term.Err(), recipes.ErrReleased)
	require.ErrorIs(t, first.Term.Resign(s.Ctx), recipes.ErrUncertain)
	proxy.Heal()
	second := termLog.Next()
	require.Greater(t, second.Term.Token(), first.Term.Token())
	require.False(t, c.Over())
}
