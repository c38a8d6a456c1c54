// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestCampaignServesInOrder(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	clients := []*recipes.Client{s.Connect(recipes.Options{}), s.Connect(recipes.Options{}), s.Connect(recipes.Options{})}
	const candidates = 9
	var campaigns []*recipetest.Campaigning
	for i := range candidates {
		e := s.Election(clients[i%len(clients)], "election", fmt.Sprint(i))
		campaigns = append(campaigns, s.Campaigning(s.Ctx, e))
		s.Waiting("election", i+1)
	}
	var before *election.Term
	for i, c := range campaigns {
		term := c.Won()
		require.Equal(t, fmt.Sprint(i), term.Owner())
		if before != nil {
			require.Greater(t, term.Token(), before.Token())
		}
		for _, later := range campaigns[i+1:] {
			require.False(t, later.Over(), "one candidate leads at a time")
		}
		before = term
		s.Resign(term)
	}
}

func TestCancelledCampaignLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	leader := s.Campaign(s.Election(client, "election", "leader"))

	ctx, cancel := context.WithCancel(s.Ctx)
	cancelled := s.Campaigning(ctx, s.Election(client, "election", "cancelled"))
	s.Waiting("election", 2)
	behind := s.Campaigning(s.Ctx, s.Election(client, "election", "behind"))
	s.Waiting("election", 3)
	cancel()
	term, err := cancelled.Result()
	require.Nil(t, term)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, s.Path("election"))
	require.Len(t, s.Nodes("election"), 2, "the node is gone when Campaign returns")
	require.Equal(t, 2, client.OutstandingNodes())
	require.False(t, behind.Over(), "the next candidate does not overtake the leader")

	ctx, cancel = context.WithTimeout(s.Ctx, 300*time.Millisecond)
	defer cancel()
	_, err = s.Campaigning(ctx, s.Election(client, "election", "timed out")).Result()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.Nodes("election"), 2)

	s.Resign(leader)
	s.Resign(behind.Won())
}

func TestResignHandsOver(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	first := s.Campaign(s.Election(s.Connect(recipes.Options{}), "election", "first"))
	next := s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", "next"))
	s.Waiting("election", 2)

	require.NoError(t, first.Err())
	require.NoError(t, first.Resign(s.Ctx))
	second := next.Won()
	require.Greater(t, second.Token(), first.Token())
	require.ErrorIs(t, first.Err(), recipes.ErrReleased)
	require.ErrorIs(t, s.Done(first), recipes.ErrLost)

	require.NoError(t, first.Resign(s.Ctx), "the first result again")
	require.ErrorIs(t, first.Check(s.Ctx), recipes.ErrReleased)
	require.NoError(t, second.Check(s.Ctx), "the second Resign has not ended the next term")
	s.Resign(second)
}

func TestResignAfterCancelStillResigns(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	ctx, cancel := context.WithCancel(s.Ctx)
	term, err := s.Election(s.Connect(recipes.Options{}), "election", "").Campaign(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, term.Err(), "ctx bounds the call, not the term")
	require.NoError(t, term.Resign(ctx))
	require.Empty(t, s.Nodes("election"))
}

func TestResignOfALostTermReportsTheLossAndSparesOthers(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	lost := s.Campaign(s.Election(client, "election", "lost"))
	next := s.Campaigning(s.Ctx, s.Election(client, "election", "next"))
	s.Waiting("election", 2)
	require.NoError(t, s.ZK.Delete(lost.Path(), -1))
	require.ErrorIs(t, s.Done(lost), recipes.ErrDeleted)

	err := lost.Resign(s.Ctx)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
	require.ErrorIs(t, lost.Resign(s.Ctx), recipes.ErrDeleted, "the first result again")
	term := next.Won()
	require.NoError(t, term.Check(s.Ctx))
	s.Resign(term)
}

func TestLeaderAndCandidatesAreNamed(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	noLeader := func(why string) {
		t.Helper()
		_, err := s.Election(client, "election", "").Leader(s.Ctx)
		require.ErrorIs(t, err, election.ErrNoLeader, why)
		require.ErrorContains(t, err, s.Path("election"))
		candidates, err := s.Election(client, "election", "").Candidates(s.Ctx)
		require.NoError(t, err, why)
		require.Empty(t, candidates, why)
	}
	noLeader("the path is missing")
	began := time.Now()
	first := s.Campaign(s.Election(client, "election", "pod-1"))
	second := s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", "pod-2"))
	s.Waiting("election", 2)
	// Other libraries' candidates are in the same queue; other nodes are not.
	foreign, err := s.ZK.Create(s.Path("election")+"/_c_0af1-lock-", []byte("pod-3"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = s.ZK.Create(s.Path("election")+"/readme", []byte("not a candidate"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	unnamed := s.Campaigning(s.Ctx, s.Election(client, "election", ""))
	s.Waiting("election", 5)

	host, err := os.Hostname()
	require.NoError(t, err)
	candidates, err := s.Election(client, "election", "").Candidates(s.Ctx)
	require.NoError(t, err)
	require.Len(t, candidates, 4)
	var ids []string
	for i, c := range candidates {
		ids = append(ids, c.Owner)
		if i > 0 {
			require.Greater(t, c.Token, candidates[i-1].Token)
		}
		if c.Owner == "pod-3" {
			require.Empty(t, c.Host)
			require.Zero(t, c.PID)
			require.Zero(t, c.Since)
			continue
		}
		require.Equal(t, host, c.Host)
		require.Equal(t, os.Getpid(), c.PID)
		require.WithinRange(t, c.Since, began.Add(-time.Second), time.Now().Add(time.Second))
	}
	require.Equal(t, []string{"pod-1", "pod-2", "pod-3", fmt.Sprintf("%s/%d", host, os.Getpid())}, ids)

	leads := func(id string) {
		t.Helper()
		leader, err := s.Election(client, "election", "").Leader(s.Ctx)
		require.NoError(t, err)
		require.Equal(t, id, leader.Owner)
	}
	leads("pod-1")
	require.Equal(t, first.Token(), candidates[0].Token)
	s.Resign(first)
	leads("pod-2")
	require.Equal(t, second.Won().Token(), candidates[1].Token)
	s.Resign(second.Won())
	leads("pod-3")
	require.NoError(t, s.ZK.Delete(foreign, -1))
	s.Resign(unnamed.Won())
	noLeader("the path is empty")
}

// With a nil context or a closed client, every call returns an error without a request.
func TestElectionRefusesANilContextAndAClosedClient(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	e := s.Election(client, "election", "")
	calls := map[string]func(context.Context) error{
		"Campaign": func(ctx context.Context) error { _, err := e.Campaign(ctx); return err },
		"Leader":   func(ctx context.Context) error { _, err := e.Leader(ctx); return err },
		"Candidates": func(ctx context.Context) error {
			_, err := e.Candidates(ctx)
			return err
		},
		"Run": func(ctx context.Context) error {
			return e.Run(ctx, func(context.Context, *election.Term) error { return errors.New("the work was called") })
		},
		"Observe": func(ctx context.Context) error {
			for _, err := range e.Observe(ctx) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		require.ErrorContains(t, call(nil), "context is nil", name)
	}
	client.Close()
	for name, call := range calls {
		require.ErrorIs(t, call(s.Ctx), recipes.ErrClosed, name)
	}
}
