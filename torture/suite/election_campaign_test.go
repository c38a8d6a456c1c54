// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestCampaignServesInOrder(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	clients := []*recipes.Client{s.connect(recipes.Options{}), s.connect(recipes.Options{}), s.connect(recipes.Options{})}
	const candidates = 9
	var campaigns []*campaigning
	for i := range candidates {
		e := s.election(clients[i%len(clients)], "election", fmt.Sprint(i))
		campaigns = append(campaigns, s.campaigning(s.ctx, e))
		s.waiting("election", i+1)
	}
	var before *election.Term
	for i, c := range campaigns {
		term := c.won()
		require.Equal(t, fmt.Sprint(i), term.ID())
		if before != nil {
			require.Greater(t, term.Token(), before.Token())
		}
		for _, later := range campaigns[i+1:] {
			require.False(t, later.over(), "one candidate leads at a time")
		}
		before = term
		s.resign(term)
	}
}

func TestCancelledCampaignLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	leader := s.campaign(s.election(client, "election", "leader"))

	ctx, cancel := context.WithCancel(s.ctx)
	cancelled := s.campaigning(ctx, s.election(client, "election", "cancelled"))
	s.waiting("election", 2)
	behind := s.campaigning(s.ctx, s.election(client, "election", "behind"))
	s.waiting("election", 3)
	cancel()
	term, err := cancelled.result()
	require.Nil(t, term)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, s.path("election"))
	require.Len(t, s.nodes("election"), 2, "the node is gone when Campaign returns")
	require.Equal(t, 2, client.OutstandingNodes())
	require.False(t, behind.over(), "the next candidate does not overtake the leader")

	ctx, cancel = context.WithTimeout(s.ctx, 300*time.Millisecond)
	defer cancel()
	_, err = s.campaigning(ctx, s.election(client, "election", "timed out")).result()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.nodes("election"), 2)

	s.resign(leader)
	s.resign(behind.won())
}

func TestResignHandsOver(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	first := s.campaign(s.election(s.connect(recipes.Options{}), "election", "first"))
	next := s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", "next"))
	s.waiting("election", 2)

	require.NoError(t, first.Err())
	require.NoError(t, first.Resign(s.ctx))
	second := next.won()
	require.Greater(t, second.Token(), first.Token())
	require.ErrorIs(t, first.Err(), recipes.ErrReleased)
	require.ErrorIs(t, s.done(first), recipes.ErrLost)

	require.NoError(t, first.Resign(s.ctx), "the first result again")
	require.ErrorIs(t, first.Check(s.ctx), recipes.ErrReleased)
	require.NoError(t, second.Check(s.ctx), "the second Resign has not ended the next term")
	s.resign(second)
}

func TestResignAfterCancelStillResigns(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	ctx, cancel := context.WithCancel(s.ctx)
	term, err := s.election(s.connect(recipes.Options{}), "election", "").Campaign(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, term.Err(), "ctx bounds the call, not the term")
	require.NoError(t, term.Resign(ctx))
	require.Empty(t, s.nodes("election"))
}

func TestResignOfALostTermReportsTheLossAndSparesOthers(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	lost := s.campaign(s.election(client, "election", "lost"))
	next := s.campaigning(s.ctx, s.election(client, "election", "next"))
	s.waiting("election", 2)
	require.NoError(t, s.zk.Delete(lost.Path(), -1))
	require.ErrorIs(t, s.done(lost), recipes.ErrDeleted)

	err := lost.Resign(s.ctx)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
	require.ErrorIs(t, lost.Resign(s.ctx), recipes.ErrDeleted, "the first result again")
	term := next.won()
	require.NoError(t, term.Check(s.ctx))
	s.resign(term)
}

func TestUnansweredResignContinuesInTheBackground(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.connect(recipes.Options{}, proxy.Addr())
	e := s.electionWith(client, "election", election.Options{ReleaseTimeout: 200 * time.Millisecond})
	term := s.campaign(e)
	next := s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", "next"))
	s.waiting("election", 2)

	proxy.Drop(docker.Both)
	err := term.Resign(s.ctx)
	require.ErrorIs(t, err, recipes.ErrUncertain)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, term.Err(), recipes.ErrReleased, "the term has ended nevertheless")
	proxy.Heal()
	s.resign(next.won())
	s.eventually("no outstanding node", func() bool { return client.OutstandingNodes() == 0 })
	require.ErrorIs(t, term.Resign(s.ctx), recipes.ErrUncertain, "the first result again")
}

func TestLeaderAndCandidatesAreNamed(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	noLeader := func(why string) {
		t.Helper()
		_, err := s.election(client, "election", "").Leader(s.ctx)
		require.ErrorIs(t, err, election.ErrNoLeader, why)
		require.ErrorContains(t, err, s.path("election"))
		candidates, err := s.election(client, "election", "").Candidates(s.ctx)
		require.NoError(t, err, why)
		require.Empty(t, candidates, why)
	}
	noLeader("the path is missing")
	began := time.Now()
	first := s.campaign(s.election(client, "election", "pod-1"))
	second := s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", "pod-2"))
	s.waiting("election", 2)
	// Other libraries' candidates are in the same queue; other nodes are not.
	foreign, err := s.zk.Create(s.path("election")+"/_c_0af1-lock-", []byte("pod-3"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = s.zk.Create(s.path("election")+"/readme", []byte("not a candidate"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	unnamed := s.campaigning(s.ctx, s.election(client, "election", ""))
	s.waiting("election", 5)

	host, err := os.Hostname()
	require.NoError(t, err)
	candidates, err := s.election(client, "election", "").Candidates(s.ctx)
	require.NoError(t, err)
	require.Len(t, candidates, 4)
	var ids []string
	for i, c := range candidates {
		ids = append(ids, c.ID)
		if i > 0 {
			require.Greater(t, c.Token, candidates[i-1].Token)
		}
		if c.ID == "pod-3" {
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
		leader, err := s.election(client, "election", "").Leader(s.ctx)
		require.NoError(t, err)
		require.Equal(t, id, leader.ID)
	}
	leads("pod-1")
	require.Equal(t, first.Token(), candidates[0].Token)
	s.resign(first)
	leads("pod-2")
	require.Equal(t, second.won().Token(), candidates[1].Token)
	s.resign(second.won())
	leads("pod-3")
	require.NoError(t, s.zk.Delete(foreign, -1))
	s.resign(unnamed.won())
	noLeader("the path is empty")
}

// With a nil context or a closed client, every call returns an error without a request.
func TestElectionRefusesANilContextAndAClosedClient(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	client := s.connect(recipes.Options{})
	e := s.election(client, "election", "")
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
		require.ErrorIs(t, call(s.ctx), recipes.ErrClosed, name)
	}
}
