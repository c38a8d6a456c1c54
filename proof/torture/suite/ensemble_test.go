// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestTokensRiseAcrossHoldersParentDeletionAndLeaderChange(t *testing.T) {
	t.Parallel()
	s := onLent(t, broken)
	var newest fencing.Token
	clients := []*recipes.Client{s.Connect(recipes.Options{}), s.Connect(recipes.Options{})}
	take := func(when string) {
		for i := range 4 {
			hold := s.Lock(s.Mutex(clients[i%len(clients)], "lock"))
			require.Greater(t, hold.Token(), newest, when)
			newest = hold.Token()
			s.Unlock(hold)
		}
	}
	take("from one holder to the next")
	s.Waiting("lock", 0)
	if err := s.ZK.Delete(s.Path("lock"), -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
	take("after the parent was deleted")

	old := s.leader()
	require.NoError(t, old.Kill(s.Ctx))
	epoch := newest >> 32
	take("under another leader")
	require.Greater(t, newest>>32, epoch, "the servers should have elected another leader")
	require.NoError(t, old.Start(s.Ctx))
	require.NoError(t, s.ensemble.WaitServing(s.Ctx))
	take("after the old leader was restarted")
}

// frozenTimeout leaves the followers of a frozen leader time to notice, which takes them two seconds, and to elect another one.
const frozenTimeout = 15 * time.Second

// A server that accepts connections and answers nothing costs the client time to detect, and not its session.
func TestFrozenServerDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	s := onLent(t, broken)
	for _, mode := range []string{"follower", "leader"} {
		client, server, attached := s.attachedTo(mode)
		mu := s.Mutex(client, mode)
		hold := s.Lock(mu)
		session := client.SessionID()
		next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{SessionTimeout: frozenTimeout}), mode))
		s.Waiting(mode, 2)
		s.beats(hold, 3)

		require.NoError(t, server.Pause(s.Ctx))
		began := time.Now()
		select {
		case addr := <-attached:
			require.NotEqual(t, server.Addr(), addr)
		case <-hold.Done():
			require.Fail(t, "lost", "%v", hold.Err())
		}
		require.NoError(t, hold.Check(s.Ctx))
		t.Logf("frozen %s: served by another server after %.2f T", mode, time.Since(began).Seconds()/frozenTimeout.Seconds())
		require.Equal(t, session, client.SessionID())
		require.False(t, next.Over())

		require.NoError(t, server.Unpause(s.Ctx))
		require.NoError(t, s.ensemble.WaitServing(s.Ctx))
		require.NoError(t, hold.Check(s.Ctx))
		s.Unlock(hold)
		s.Unlock(next.Granted())
	}
}

// attachedTo returns a client whose server has that mode. The channel receives the servers that it connects to later.
func (s *env) attachedTo(mode string) (*recipes.Client, *docker.Server, <-chan string) {
	s.T.Helper()
	for {
		opened := make(chan string, 1)
		attached := make(chan string, 100)
		client := s.Connect(recipes.Options{SessionTimeout: frozenTimeout, Trace: &recipes.Trace{
			SessionOpened: func(e recipes.SessionEvent) { opened <- e.Server },
			Attached:      func(e recipes.SessionEvent) { attached <- e.Server },
		}})
		addr := await(s, opened)
		for _, server := range s.ensemble.Servers() {
			if got, err := server.Mode(s.Ctx); err == nil && got == mode && server.Addr() == addr {
				return client, server, attached
			}
		}
		client.Close()
	}
}

// All servers are killed at the same time and started again. A holder is notified, or still holds.
func TestWholeEnsembleRestartKeepsPromises(t *testing.T) {
	t.Parallel()
	s := onLent(t, broken)
	h := s.history()
	const contenders = 6
	var cycles [contenders]atomic.Int64
	stop := make(chan struct{})
	errs := make(chan error, contenders)
	for i := range contenders {
		mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
		go func() {
			errs <- func() error {
				for {
					select {
					case <-stop:
						return nil
					default:
					}
					hold, err := mu.Lock(s.Ctx)
					if err != nil {
						return err
					}
					h.granted(fmt.Sprint("contender ", i), hold.Claim, time.Now())
					err = hold.Check(s.Ctx)
					if err != nil && !errors.Is(err, recipes.ErrLost) {
						return err
					}
					h.releasing(hold.Claim)
					err = hold.Unlock(s.Ctx)
					if err != nil && !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) {
						return err
					}
					cycles[i].Add(1)
				}
			}()
		}()
	}
	held := s.Lock(s.Mutex(s.Connect(recipes.Options{SessionTimeout: 10 * time.Second}), "held"))
	more := func(n int64) {
		for i := range cycles {
			before := cycles[i].Load()
			s.Eventually("more cycles", func() bool { return cycles[i].Load() >= before+n })
		}
	}
	more(5)

	var restarting sync.WaitGroup
	for _, server := range s.ensemble.Servers() {
		restarting.Go(func() {
			if err := errors.Join(server.Kill(s.Ctx), server.Start(s.Ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	restarting.Wait()
	began := time.Now()
	require.NoError(t, s.ensemble.WaitServing(s.Ctx))
	t.Logf("serving again after %v", time.Since(began))
	more(5)
	close(stop)
	for range contenders {
		require.NoError(t, await(s, errs))
	}
	h.requireNoOverlap()
	t.Logf("%d grants", len(h.inOrder()))

	if err := held.Check(s.Ctx); err != nil {
		require.ErrorIs(t, err, recipes.ErrLost)
		s.Waiting("held", 0)
	} else {
		require.Len(t, s.Nodes("held"), 1)
		s.Unlock(held)
	}
}
