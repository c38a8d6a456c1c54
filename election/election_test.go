// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestNewRejectsInvalidArgumentsAndNamesThem(t *testing.T) {
	for _, path := range []string{
		"", "election", "election/a", "/", "//", "//election", "/election//a", "/election/", "/election/.", "/./election",
		"/election/../a", "/election/a\nb", "/election/\x00", "/election/\x7f", "/election/\xff", "/zookeeper/election",
	} {
		e, err := election.New(&recipes.Client{}, path, nil)
		require.Nil(t, e)
		require.ErrorContains(t, err, "new election", "the operation")
		require.ErrorContains(t, err, fmt.Sprintf("path %q", path))
	}
	retry := func(error) bool { return true }
	healthy := func(context.Context) error { return nil }
	for _, invalid := range []struct {
		opts election.Options
		want string
	}{
		{election.Options{ReleaseTimeout: -time.Second}, "release timeout -1s"},
		{election.Options{StopTimeout: -time.Millisecond}, "stop timeout -1ms"},
		{election.Options{CoolDown: -1}, "cool-down -1ns"},
		{election.Options{Retry: retry, RetryBackoff: -1}, "retry back-off -1ns is negative"},
		{election.Options{Retry: retry, MaxRetryBackoff: -1}, "maximum retry back-off -1ns is negative"},
		{election.Options{Retry: retry, RetryBackoff: time.Hour}, "maximum retry back-off 1m0s is below the retry back-off 1h0m0s"},
		{election.Options{RetryBackoff: time.Second}, "retry back-off without Retry"},
		{election.Options{Health: healthy, HealthInterval: -1}, "health interval -1ns is negative"},
		{election.Options{Health: healthy, HealthTimeout: -1}, "health timeout -1ns is negative"},
		{election.Options{HealthTimeout: time.Second}, "health interval or timeout without Health"},
		{election.Options{Priority: -1}, "priority -1: must be 0 to 1000"},
		{election.Options{Priority: election.MaxPriority + 1}, "priority 1001: must be 0 to 1000"},
		{election.Options{PriorityWait: -1}, "priority wait -1ns is negative"},
		{election.Options{LockDelay: -time.Second}, "lock-delay -1s is negative"},
		{election.Options{Owner: strings.Repeat("x", 4097)}, "4097 bytes is over the limit of 4096"},
	} {
		e, err := election.New(&recipes.Client{}, "/election/a", &invalid.opts)
		require.Nil(t, e)
		require.ErrorContains(t, err, "new election", "the operation")
		require.ErrorContains(t, err, invalid.want)
		var failed *recipes.Error
		require.ErrorAs(t, err, &failed)
	}
	e, err := election.New(nil, "/election/a", nil)
	require.Nil(t, e)
	require.ErrorContains(t, err, "client is nil")
}

func TestCampaignThatTimesOutNamesTheLeader(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		s.join(s.candidate(election.Options{Owner: "other"}))
		waiter := s.candidate(election.Options{Owner: "waiter"})
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		_, err := waiter.Campaign(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		var led *election.LeaderError
		require.ErrorAs(s, err, &led)
		require.Equal(s, term.Token(), led.Leader.Token)
		require.ErrorContains(s, err, `campaign `+path+`: led by "leader", a candidate since 2000-`)
	})
}

func TestCandidateThatIsFirstItselfIsNotNamedAsTheLeader(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		low := s.candidate(election.Options{Owner: "low", PriorityWait: time.Hour})
		ctx, cancel := context.WithTimeout(s.Context(), 3*time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := low.Campaign(ctx)
			failed <- err
		}()
		time.Sleep(time.Second)
		dead := s.candidate(election.Options{Owner: "dead", Priority: 1})
		s.join(dead)
		dead.link.Hold(zktest.Both)
		require.NoError(s, leader.Resign(s.Context()))
		err := <-failed
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NotErrorAs(s, err, new(*election.LeaderError))
	})
}
