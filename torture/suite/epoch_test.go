// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lead names the election whose terms the epochs of these tests number.
const lead = "lead"

// epochs returns the epochs of that election.
func (s *env) epochs(client *recipes.Client, id string) *epoch.Epochs {
	s.t.Helper()
	es, err := epoch.New(client, s.path(lead)+epochSuffix, &epoch.Options{ID: id})
	require.NoError(s.t, err)
	return es
}

// state creates the nodes that the leaders write.
func (s *env) state() {
	s.t.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		_, err := s.zk.Create(s.path(lead)+suffix, []byte("none"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(s.t, err)
	}
}

// requireState requires that both nodes contain the given data.
func (s *env) requireState(want string) {
	s.t.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		require.Equal(s.t, want, string(s.content(s.path(lead)+suffix)))
	}
}

// content returns a node's data after a sync.
func (s *env) content(path string) (data []byte) {
	s.t.Helper()
	s.eventually("an answer", func() bool {
		_, err := s.zk.Sync(path)
		if err == nil {
			data, _, err = s.zk.Get(path)
		}
		return err == nil
	})
	return data
}

// leadsEpoch campaigns and claims an epoch.
func (s *env) leadsEpoch(client *recipes.Client, id string) (*election.Term, *epoch.Epoch) {
	s.t.Helper()
	term, err := s.election(client, lead, id).Campaign(s.ctx)
	require.NoError(s.t, err)
	e, err := s.epochs(client, id).Claim(s.ctx, term.Claim)
	require.NoError(s.t, err)
	return term, e
}

// The leading server is partitioned from its followers, and the leader of the election is connected to it.
func TestLeaderThatIsIsolatedWithItsServerWritesNothingMore(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	s := onFresh(t, docker.Options{Servers: 3, Tick: time.Second, SyncLimit: 15})
	s.state()
	old, followers := s.leader(), s.followers()
	a := s.connect(recipes.Options{SessionTimeout: timeout}, old.Addr())
	b := s.connect(recipes.Options{SessionTimeout: timeout}, followers[0].Addr(), followers[1].Addr())
	term, first := s.leadsEpoch(a, "a")
	_, err := first.Commit(s.ctx, writes(s.path(lead), "a")...)
	require.NoError(t, err)

	require.NoError(t, old.CutFromPeers(s.ctx))
	_, err = first.Commit(s.ctx, writes(s.path(lead), "a, isolated")...)
	require.Error(t, err)
	require.True(t, errors.Is(err, recipes.ErrUncertain) || errors.Is(err, recipes.ErrLost), "%v", err)
	for _, f := range followers { // otherwise they would notice only after 15 s
		require.NoError(t, f.Kill(s.ctx))
	}
	for _, f := range followers {
		require.NoError(t, f.Start(s.ctx))
	}
	bTerm, second := s.leadsEpoch(b, "b")
	require.Equal(t, int64(2), second.Number())
	_, err = second.Commit(s.ctx, writes(s.path(lead), "b")...)
	require.NoError(t, err)
	require.ErrorIs(t, s.done(term), recipes.ErrLost)

	require.NoError(t, old.Mend(s.ctx))
	require.NoError(t, s.ensemble.WaitServing(s.ctx))
	reader := s.epochs(a, "a")
	s.eventually("the old leader's client reads the new epoch", func() bool {
		newest, err := reader.Current(s.ctx)
		return err == nil && newest.Number == 2
	})
	_, err = first.Commit(s.ctx, writes(s.path(lead), "a, stale")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.ErrorContains(t, err, "epoch 1")
	require.ErrorContains(t, err, `epoch 2 is that of "b"`)
	t.Log(err)
	s.requireState("b")
	require.NoError(t, bTerm.Resign(s.ctx))
}

func TestEpochIsObservedFromAnyServer(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	seen := make([]chan int64, 0, 3)
	for _, server := range s.ensemble.Servers() {
		numbers := make(chan int64)
		seen = append(seen, numbers)
		es := s.epochs(s.connect(recipes.Options{}, server.Addr()), "observer")
		go func() {
			defer close(numbers)
			for newest, err := range es.Observe(ctx) {
				if err != nil {
					return
				}
				select {
				case numbers <- newest.Number:
				case <-ctx.Done():
				}
			}
		}()
	}
	a := s.connect(recipes.Options{})
	for number := int64(1); number <= 3; number++ {
		term, _ := s.leadsEpoch(a, "a")
		for _, numbers := range seen {
			require.Equal(t, number, await(s, numbers))
		}
		require.NoError(t, term.Resign(s.ctx))
	}
	cancel()
	for _, numbers := range seen {
		await(s, numbers)
	}
}
