// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"context"
	"encoding/binary"
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

// lead is the election that the epochs here count the terms of.
const lead = "lead"

// epochs are those beside it.
func (s *env) epochs(client *recipes.Client, id string) *epoch.Epochs {
	s.t.Helper()
	es, err := epoch.New(client, s.path(lead)+epochSuffix, &epoch.Options{ID: id})
	require.NoError(s.t, err)
	return es
}

// state makes the nodes that its leaders write.
func (s *env) state() {
	s.t.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		_, err := s.zk.Create(s.path(lead)+suffix, []byte("none"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(s.t, err)
	}
}

// holdsState requires that both nodes hold what was written last.
func (s *env) holdsState(want string) {
	s.t.Helper()
	for _, suffix := range []string{stateSuffix, copySuffix} {
		require.Equal(s.t, want, string(s.content(s.path(lead)+suffix)))
	}
}

// content returns a node's data, at least as new as what any client of this process has read before.
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

// reigns campaigns and claims an epoch.
func (s *env) reigns(client *recipes.Client, id string) (*election.Term, *epoch.Epoch) {
	s.t.Helper()
	term, err := s.election(client, lead, id).Campaign(s.ctx)
	require.NoError(s.t, err)
	e, err := s.epochs(client, id).Claim(s.ctx, term.Claim)
	require.NoError(s.t, err)
	return term, e
}

// writesTo says that a request is a transaction that begins with a check and has the path in it.
func writesTo(path string) func(frame []byte) bool {
	const opCheck = 13
	return func(frame []byte) bool {
		return len(frame) >= 12 && binary.BigEndian.Uint32(frame[4:]) == opMulti &&
			binary.BigEndian.Uint32(frame[8:]) == opCheck && bytes.Contains(frame, []byte(path))
	}
}

// losing has the next answer to such a request be lost, whichever server gives it.
func (s *env) losing(proxies []*docker.Proxy, match func([]byte) bool) (lost <-chan struct{}) {
	found := make(chan struct{}, len(proxies))
	for _, p := range proxies {
		happened := p.LoseReply(match)
		go func() {
			select {
			case <-happened:
				found <- struct{}{}
			case <-s.ctx.Done():
			}
		}()
	}
	return found
}

func TestEpochWhoseClaimIsNotAnsweredIsFoundAndClaimedOnce(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	s.state()
	client, proxies := s.behindProxies(recipes.Options{})
	reader := s.epochs(s.connect(recipes.Options{}), "reader")
	for number := int64(1); number <= 5; number++ {
		lost := s.losing(proxies, writesTo(lead+epochSuffix))
		term, e := s.reigns(client, "a")
		await(s, lost)
		require.Equal(t, number, e.Number())
		require.EqualValues(t, number-1, s.stat(s.path(lead)+epochSuffix).Version, "written once for each")
		for _, p := range proxies {
			p.Heal() // some have not lost an answer yet
		}
		_, err := e.Commit(s.ctx, writes(s.path(lead), "a")...)
		require.NoError(t, err)
		s.eventually("a reader sees it", func() bool {
			newest, err := reader.Current(s.ctx)
			return err == nil && newest.Number == number && newest.Token == term.Token() && newest.ID == "a"
		})
		require.NoError(t, term.Resign(s.ctx))
	}
}

func TestCommitWhoseAnswerIsLostIsUncertainAndWhole(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	s.state()
	client, proxies := s.behindProxies(recipes.Options{})
	term, e := s.reigns(client, "a")
	for _, data := range []string{"one", "two", "three"} {
		lost := s.losing(proxies, writesTo(lead+stateSuffix))
		_, err := e.Commit(s.ctx, writes(s.path(lead), data)...)
		await(s, lost)
		require.ErrorIs(t, err, recipes.ErrUncertain)
		require.NotErrorIs(t, err, fencing.ErrStale)
		s.holdsState(data) // it has been carried out
		for _, p := range proxies {
			p.Heal()
		}
		_, err = e.Commit(s.ctx)
		require.NoError(t, err, "and the epoch is the newest still")
	}
	require.NoError(t, term.Resign(s.ctx))
}

// The leader of the servers is isolated from the others, with the leader of the election behind it.
func TestLeaderThatIsIsolatedWithItsServerWritesNothingMore(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	s := onFresh(t, docker.Options{Servers: 3, Tick: time.Second, SyncLimit: 15})
	s.state()
	old, followers := s.leader(), s.followers()
	a := s.connect(recipes.Options{SessionTimeout: timeout}, old.Addr())
	b := s.connect(recipes.Options{SessionTimeout: timeout}, followers[0].Addr(), followers[1].Addr())
	term, first := s.reigns(a, "a")
	_, err := first.Commit(s.ctx, writes(s.path(lead), "a")...)
	require.NoError(t, err)

	require.NoError(t, old.Isolate(s.ctx))
	_, err = first.Commit(s.ctx, writes(s.path(lead), "a, isolated")...)
	require.Error(t, err)
	require.True(t, errors.Is(err, recipes.ErrUncertain) || errors.Is(err, recipes.ErrLost), "%v", err)
	for _, f := range followers { // which notice nothing for 15 s otherwise
		require.NoError(t, f.Kill(s.ctx))
	}
	for _, f := range followers {
		require.NoError(t, f.Start(s.ctx))
	}
	bTerm, second := s.reigns(b, "b")
	require.Equal(t, int64(2), second.Number())
	_, err = second.Commit(s.ctx, writes(s.path(lead), "b")...)
	require.NoError(t, err)
	require.ErrorIs(t, s.done(term), recipes.ErrLost)

	require.NoError(t, old.Heal(s.ctx))
	require.NoError(t, s.ensemble.WaitServing(s.ctx))
	reader := s.epochs(a, "a")
	s.eventually("the old leader's client hears of the epoch", func() bool {
		newest, err := reader.Current(s.ctx)
		return err == nil && newest.Number == 2
	})
	_, err = first.Commit(s.ctx, writes(s.path(lead), "a, late")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.ErrorContains(t, err, "epoch 1")
	require.ErrorContains(t, err, `epoch 2 is that of "b"`)
	t.Log(err)
	s.holdsState("b")
	require.NoError(t, bTerm.Resign(s.ctx))
}

// Terms of two elections that share a count: each has its own node, and the epoch alone decides.
func TestSupersededLeaderWhoseNodeLivesIsRefused(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	s.state()
	a, b := s.connect(recipes.Options{}), s.connect(recipes.Options{})
	term, first := s.reigns(a, "a")
	other, err := s.election(b, "other", "b").Campaign(s.ctx)
	require.NoError(t, err)
	second, err := s.epochs(b, "b").Claim(s.ctx, other.Claim)
	require.NoError(t, err)
	_, err = second.Commit(s.ctx, writes(s.path(lead), "b")...)
	require.NoError(t, err)
	_, err = first.Commit(s.ctx, writes(s.path(lead), "a")...)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, recipes.ErrLost)
	var stale *epoch.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, [2]int64{1, 2}, [2]int64{stale.Epoch, stale.Newest.Number})
	s.holdsState("b")
	require.NoError(t, term.Err())
	require.NoError(t, term.Resign(s.ctx))
	require.NoError(t, other.Resign(s.ctx))
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
		term, _ := s.reigns(a, "a")
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
