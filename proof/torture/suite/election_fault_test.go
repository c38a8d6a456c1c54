// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestPartitionedLeaderIsNotifiedBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	for _, partition := range []struct {
		name string
		way  docker.Direction
	}{{"both ways", docker.Both}, {"to the server", docker.ToServer}, {"to the client", docker.ToClient}} {
		t.Run(partition.name, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			proxy := s.proxy(s.ensemble.Servers()[0])
			client := s.Connect(recipes.Options{}, proxy.Addr())
			next := s.Election(s.Connect(recipes.Options{}), "election", "next")
			var (
				campaign       *recipetest.Campaigning
				began, stopped time.Time
			)
			ctx, cancel := context.WithCancel(s.Ctx)
			defer cancel()
			err := s.Election(client, "election", "partitioned").Run(ctx, func(ctx context.Context, term *election.Term) error {
				campaign = s.Campaigning(s.Ctx, next)
				s.Waiting("election", 2)
				began = time.Now()
				proxy.Drop(partition.way)
				<-ctx.Done()
				stopped = time.Now()
				require.ErrorIs(t, context.Cause(ctx), recipes.ErrDeadline)
				return errors.New("stopped")
			})
			require.ErrorContains(t, err, "stopped")
			term := campaign.Won()
			t.Logf("T = %v: the work stopped after %v, another candidate led after %v: %v later",
				client.SessionTimeout(), stopped.Sub(began), campaign.At.Sub(began), campaign.At.Sub(stopped))
			require.True(t, reacted(stopped).Before(campaign.At), "the work stopped before another candidate led")
			s.Resign(term)
		})
	}
}

func TestTermContextCarriesTheCauseOfTheLoss(t *testing.T) {
	t.Parallel()
	for _, loss := range []struct {
		cause error
		lose  func(s *env, client *recipes.Client, ender *sessionEnder, proxy *docker.Proxy, term *election.Term)
	}{
		{recipes.ErrReleased, func(s *env, _ *recipes.Client, _ *sessionEnder, _ *docker.Proxy, term *election.Term) {
			s.Resign(term)
		}},
		{recipes.ErrDeleted, func(s *env, _ *recipes.Client, _ *sessionEnder, _ *docker.Proxy, term *election.Term) {
			require.NoError(s.T, s.ZK.Delete(term.Path(), -1))
		}},
		{recipes.ErrDeleted, func(s *env, _ *recipes.Client, _ *sessionEnder, _ *docker.Proxy, term *election.Term) {
			_, err := s.ZK.Set(term.Path(), []byte("mine now"), -1)
			require.NoError(s.T, err)
		}},
		{recipes.ErrSessionExpired, func(_ *env, _ *recipes.Client, ender *sessionEnder, _ *docker.Proxy, _ *election.Term) {
			ender.expire()
		}},
		{recipes.ErrDeadline, func(_ *env, _ *recipes.Client, _ *sessionEnder, proxy *docker.Proxy, _ *election.Term) {
			proxy.Drop(docker.ToClient)
		}},
		{recipes.ErrClosed, func(_ *env, client *recipes.Client, _ *sessionEnder, _ *docker.Proxy, _ *election.Term) {
			client.Close()
		}},
	} {
		t.Run(loss.cause.Error(), func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			var opts recipes.Options
			ender := s.sessionEnder(&opts)
			proxy := s.proxy(s.ensemble.Servers()[0])
			client := s.Connect(opts, proxy.Addr())
			term := s.Campaign(s.Election(client, "election", ""))
			work, cancel := term.Context(s.Ctx)
			defer cancel()
			require.NoError(t, work.Err())
			require.NoError(t, term.Err())

			loss.lose(s, client, ender, proxy, term)
			require.ErrorIs(t, s.Done(term), loss.cause)
			require.ErrorIs(t, term.Err(), recipes.ErrLost)
			<-work.Done()
			require.Equal(t, context.Canceled, work.Err())
			require.Equal(t, term.Err(), context.Cause(work))
			late, cancel := term.Context(s.Ctx)
			defer cancel()
			require.Equal(t, term.Err(), context.Cause(late), "the context of a term that has ended")
		})
	}
	t.Run("unless the caller ends it", func(t *testing.T) {
		t.Parallel()
		s := onOne(t)
		term := s.Campaign(s.Election(s.Connect(recipes.Options{}), "election", ""))
		why := errors.New("configuration has changed")
		parent, end := context.WithCancelCause(s.Ctx)
		work, cancel := term.Context(parent)
		defer cancel()
		end(why)
		<-work.Done()
		require.Equal(t, why, context.Cause(work))
		require.NoError(t, term.Err(), "the term continues")
		s.Resign(term)
		require.Equal(t, why, context.Cause(work))
	})
}
