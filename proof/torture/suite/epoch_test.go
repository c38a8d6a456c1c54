// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lead names the election whose terms the epochs of these tests number.
const lead = "lead"

// epochs returns the epochs of that election.
func (s *env) epochs(client *recipes.Client, id string) *epoch.Epochs {
	s.T.Helper()
	es, err := epoch.New(client, s.Path(lead)+epochSuffix, &epoch.Options{Owner: id})
	require.NoError(s.T, err)
	return es
}

// state creates the nodes that the leaders write.
func (s *env) state() {
	s.T.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		_, err := s.ZK.Create(s.Path(lead)+suffix, []byte("none"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(s.T, err)
	}
}

// requireState requires that both nodes contain the given data.
func (s *env) requireState(want string) {
	s.T.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		require.Equal(s.T, want, string(s.content(s.Path(lead)+suffix)))
	}
}

// content returns a node's data after a sync.
func (s *env) content(path string) (data []byte) {
	s.T.Helper()
	s.Eventually("an answer", func() bool {
		_, err := s.ZK.Sync(path)
		if err == nil {
			data, _, err = s.ZK.Get(path)
		}
		return err == nil
	})
	return data
}

// leadsEpoch campaigns and claims an epoch.
func (s *env) leadsEpoch(client *recipes.Client, id string) (*election.Term, *epoch.Epoch) {
	s.T.Helper()
	term, err := s.Election(client, lead, id).Campaign(s.Ctx)
	require.NoError(s.T, err)
	e, err := s.epochs(client, id).Claim(s.Ctx, term.Claim)
	require.NoError(s.T, err)
	return term, e
}

// The leader of the servers is cut off from the others, with the leader of the election behind it.
func TestLeaderThatIsIsolatedWithItsServerWritesNothingMore(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	s := onLent(t, slow)
	s.state()
	old, followers := s.leader(), s.followers()
	a := s.Connect(recipes.Options{SessionTimeout: timeout}, old.Addr())
	b := s.Connect(recipes.Options{SessionTimeout: timeout}, followers[0].Addr(), followers[1].Addr())
	term, first := s.leadsEpoch(a, "a")
	_, err := first.Commit(s.Ctx, writes(s.Path(lead), "a")...)
	require.NoError(t, err)

	require.NoError(t, old.Isolate(s.Ctx))
	_, err = first.Commit(s.Ctx, writes(s.Path(lead), "a, isolated")...)
	require.Error(t, err)
	require.True(t, errors.Is(err, recipes.ErrUncertain) || errors.Is(err, recipes.ErrLost), "%v", err)
	for _, f := range followers { // otherwise they would notice only after a minute
		require.NoError(t, f.Kill(s.Ctx))
	}
	for _, f := range followers {
		require.NoError(t, f.Start(s.Ctx))
	}
	bTerm, second := s.leadsEpoch(b, "b")
	require.Equal(t, int64(2), second.Number())
	_, err = second.Commit(s.Ctx, writes(s.Path(lead), "b")...)
	require.NoError(t, err)
	require.ErrorIs(t, s.Done(term), recipes.ErrLost)

	require.NoError(t, old.Heal(s.Ctx))
	require.NoError(t, s.ensemble.WaitServing(s.Ctx))
	reader := s.epochs(a, "a")
	s.Eventually("the old leader's client reads the new epoch", func() bool {
		newest, err := reader.Current(s.Ctx)
		return err == nil && newest.Number == 2
	})
	_, err = first.Commit(s.Ctx, writes(s.Path(lead), "a, stale")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.ErrorContains(t, err, "epoch 1")
	require.ErrorContains(t, err, `epoch 2 belongs to "b"`)
	t.Log(err)
	s.requireState("b")
	require.NoError(t, bTerm.Resign(s.Ctx))
}

func TestEpochIsObservedFromAnyServer(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	seen := make([]chan int64, 0, 3)
	for _, server := range s.ensemble.Servers() {
		numbers := make(chan int64)
		seen = append(seen, numbers)
		es := s.epochs(s.Connect(recipes.Options{}, server.Addr()), "observer")
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
	a := s.Connect(recipes.Options{})
	for number := int64(1); number <= 3; number++ {
		term, _ := s.leadsEpoch(a, "a")
		for _, numbers := range seen {
			require.Equal(t, number, await(s, numbers))
		}
		require.NoError(t, term.Resign(s.Ctx))
	}
	cancel()
	for _, numbers := range seen {
		await(s, numbers)
	}
}
