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
	s := onFresh(t, docker.Options{Servers: 3})
	var newest fencing.Token
	clients := []*recipes.Client{s.connect(recipes.Options{}), s.connect(recipes.Options{})}
	take := func(when string) {
		for i := range 4 {
			hold := s.lock(s.mutex(clients[i%len(clients)], "lock"))
			require.Greater(t, hold.Token(), newest, when)
			newest = hold.Token()
			s.unlock(hold)
		}
	}
	take("from one holder to the next")
	s.waiting("lock", 0)
	if err := s.zk.Delete(s.path("lock"), -1); !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
	take("after the parent was deleted")

	old := s.leader()
	require.NoError(t, old.Kill(s.ctx))
	epoch := newest >> 32
	take("under another leader")
	require.Greater(t, newest>>32, epoch, "the servers should have elected another leader")
	require.NoError(t, old.Start(s.ctx))
	require.NoError(t, s.ensemble.WaitServing(s.ctx))
	take("after the old leader was restarted")
}

// A server that accepts connections and answers nothing costs the client time to detect, and not its session.
func TestFrozenServerDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	s := onFresh(t, docker.Options{Servers: 3, SyncLimit: 5}) // a second, until a frozen leader is replaced
	for _, mode := range []string{"follower", "leader"} {
		client, server, attached := s.attachedTo(mode)
		mu := s.mutex(client, mode)
		hold := s.lock(mu)
		session := client.SessionID()
		next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{SessionTimeout: 10 * time.Second}), mode))
		s.waiting(mode, 2)
		s.beats(hold, 3)

		require.NoError(t, server.Pause(s.ctx))
		began := time.Now()
		select {
		case addr := <-attached:
			require.NotEqual(t, server.Addr(), addr)
		case <-hold.Done():
			require.Fail(t, "lost", "%v", hold.Err())
		}
		require.NoError(t, hold.Check(s.ctx))
		t.Logf("frozen %s: served by another server after %.2f T", mode, time.Since(began).Seconds()/10)
		require.Equal(t, session, client.SessionID())
		require.False(t, next.over())

		require.NoError(t, server.Unpause(s.ctx))
		require.NoError(t, s.ensemble.WaitServing(s.ctx))
		require.NoError(t, hold.Check(s.ctx))
		s.unlock(hold)
		s.unlock(next.granted())
	}
}

// attachedTo returns a client whose server has that mode. The channel receives the servers that it connects to later.
func (s *env) attachedTo(mode string) (*recipes.Client, *docker.Server, <-chan string) {
	s.t.Helper()
	for {
		opened := make(chan string, 1)
		attached := make(chan string, 100)
		client := s.connect(recipes.Options{SessionTimeout: 10 * time.Second, Trace: &recipes.Trace{
			SessionOpened: func(_ int64, server string, _ time.Duration) { opened <- server },
			Attached:      func(_ int64, server string) { attached <- server },
		}})
		addr := await(s, opened)
		for _, server := range s.ensemble.Servers() {
			if got, err := server.Mode(s.ctx); err == nil && got == mode && server.Addr() == addr {
				return client, server, attached
			}
		}
		client.Close()
	}
}

// All servers are killed at the same time and started again. A holder is notified, or still holds.
func TestWholeEnsembleRestartKeepsPromises(t *testing.T) {
	t.Parallel()
	s := onFresh(t, docker.Options{Servers: 3})
	h := s.history()
	const contenders = 6
	var cycles [contenders]atomic.Int64
	stop := make(chan struct{})
	errs := make(chan error, contenders)
	for i := range contenders {
		mu := s.mutex(s.connect(recipes.Options{}), "lock")
		go func() {
			errs <- func() error {
				for {
					select {
					case <-stop:
						return nil
					default:
					}
					hold, err := mu.Lock(s.ctx)
					if err != nil {
						return err
					}
					h.granted(fmt.Sprint("contender ", i), hold.Claim, time.Now())
					err = hold.Check(s.ctx)
					if err != nil && !errors.Is(err, recipes.ErrLost) {
						return err
					}
					h.releasing(hold.Claim)
					err = hold.Unlock(s.ctx)
					if err != nil && !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) {
						return err
					}
					cycles[i].Add(1)
				}
			}()
		}()
	}
	held := s.lock(s.mutex(s.connect(recipes.Options{SessionTimeout: 10 * time.Second}), "held"))
	more := func(n int64) {
		for i := range cycles {
			before := cycles[i].Load()
			s.eventually("more cycles", func() bool { return cycles[i].Load() >= before+n })
		}
	}
	more(5)

	var restarting sync.WaitGroup
	for _, server := range s.ensemble.Servers() {
		restarting.Go(func() {
			if err := errors.Join(server.Kill(s.ctx), server.Start(s.ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	restarting.Wait()
	began := time.Now()
	require.NoError(t, s.ensemble.WaitServing(s.ctx))
	t.Logf("serving again after %v", time.Since(began))
	more(5)
	close(stop)
	for range contenders {
		require.NoError(t, await(s, errs))
	}
	h.requireNoOverlap()
	t.Logf("%d grants", len(h.inOrder()))

	if err := held.Check(s.ctx); err != nil {
		require.ErrorIs(t, err, recipes.ErrLost)
		s.waiting("held", 0)
	} else {
		require.Len(t, s.nodes("held"), 1)
		s.unlock(held)
	}
}
