// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestNextLeaderWaitsAndFencesAfterLeaderThatDidNotResign(t *testing.T) {
	bubble(t, func(s servers) {
		const delay = 3 * time.Second
		var former []string
		opts := func(id string) election.Options {
			return election.Options{Owner: id, LockDelay: delay, Fence: func(_ context.Context, f recipes.FormerHolder) error {
				former = append(former, f.Owner)
				return nil
			}}
		}
		a, b := s.candidate(opts("a")), s.candidate(opts("b"))
		require.NoError(s, s.lead(a).Resign(s.Context()))
		began := time.Now()
		require.NoError(s, s.lead(b).Resign(s.Context()))
		require.Less(s, time.Since(began), delay)
		require.Empty(s, former, "a has resigned")

		s.lead(a)
		a.client.Close()
		began = time.Now()
		r := s.run(b, untilDone)
		<-r.leads
		require.GreaterOrEqual(s, time.Since(began), delay)
		require.Equal(s, []string{"a"}, former)
		r.stop()
		require.NoError(s, <-r.result)
	})
}

func TestRunReturnsTheErrorOfItsFenceFunctionAndDoesNotLead(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate(election.Options{Owner: "a", LockDelay: time.Second})
		s.lead(a)
		a.client.Close()
		broken := errors.New("no route to the storage")
		b := s.candidate(election.Options{
			Fence: func(context.Context, recipes.FormerHolder) error { return broken },
			Retry: func(error) bool { s.Error("Retry was called"); return true },
		})
		r := s.run(b, untilDone)
		err := <-r.result
		require.ErrorIs(s, err, broken)
		require.ErrorContains(s, err, "run: campaign: fence /election/controller: holder \"a\" with token ")
		require.ErrorAs(s, err, new(*recipes.UnreleasedError))
		require.Empty(s, s.nodes())
	})
}

func TestCampaignThatEndsInTheLockDelayNamesTheFormerLeader(t *testing.T) {
	bubble(t, func(s servers) {
		opts := election.Options{Owner: "a", LockDelay: time.Minute}
		a := s.candidate(opts)
		term := s.lead(a)
		a.client.Close()

		ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second) // longer than a's session lives
		defer cancel()
		_, err := s.candidate(opts).Campaign(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		var unreleased *recipes.UnreleasedError
		require.ErrorAs(s, err, &unreleased)
		require.Equal(s, "a", unreleased.Former.Owner)
		require.Equal(s, term.Token(), unreleased.Former.Token)
	})
}
