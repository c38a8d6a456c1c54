// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// go-zookeeper opens another session by itself when one has expired, and runs in
// it what was queued for the first.
func TestRequestQueuedAcrossExpiryNeverRunsInTheNextSession(t *testing.T) {
	t.Parallel()
	for name, notified := range map[string]bool{"reported by a server": true, "abandoned without a report": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onThree(t)
			const timeout = 2 * time.Second
			ended := make(chan error, 10)
			detached := make(chan struct{}, 10)
			opts := recipes.Options{SessionTimeout: timeout, Trace: &recipes.Trace{
				Detached:     func(int64, string) { detached <- struct{}{} },
				SessionEnded: func(_ int64, cause error) { ended <- cause },
			}}
			mortal := s.mortal(&opts)
			proxy := s.proxy(s.ensemble.Servers()[0])
			client := s.connect(opts, proxy.Addr())
			hold := s.lock(s.mutex(client, "held"))
			first := client.SessionID()

			proxy.Refuse()
			await(s, detached)
			conn := client.Conn()
			const requests = 20 // more than the client's queue takes
			errs := make(chan error, requests)
			for i := range requests {
				go func() {
					_, err := conn.Create(fmt.Sprint(s.path("queued-"), i), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
					errs <- err
				}()
			}
			waiting := s.locking(s.ctx, s.mutex(client, "wanted"))
			mortal.expire()
			s.waiting("held", 0)
			require.Empty(t, errs, "they should be queued")
			if notified {
				proxy.Heal()
				require.ErrorIs(t, await(s, ended), recipes.ErrSessionExpired)
			} else {
				require.ErrorIs(t, await(s, ended), recipes.ErrSessionExpired)
				proxy.Heal()
			}
			for range requests {
				require.Error(t, await(s, errs))
			}
			next := waiting.granted()
			require.NotEqual(t, first, client.SessionID())
			require.Equal(t, client.SessionID(), s.stat(next.Path()).EphemeralOwner)
			require.Len(t, s.nodes("wanted"), 1)
			for i := range requests {
				exists, _, err := s.zk.Exists(fmt.Sprint(s.path("queued-"), i))
				require.NoError(t, err)
				require.False(t, exists, "it ran in the next session")
			}
			require.ErrorIs(t, hold.Err(), recipes.ErrLost)
			s.unlock(next)
		})
	}
}

func TestDeadConnStopsDialling(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{}
	mortal := s.mortal(&opts)
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.connect(opts, proxy.Addr())
	mu := s.mutex(client, "lock")
	require.Equal(t, 1, proxy.Accepted())
	const deaths = 3
	var dead []*zk.Conn
	for range deaths {
		conn, old := client.Conn(), client.SessionID()
		mortal.expire()
		s.eventually("another session", func() bool { return client.SessionID() != old })
		s.unlock(s.lock(mu))
		dead = append(dead, conn)
	}
	// Each session takes one connection, one more to hear that it has expired, and
	// some while it is fought over.
	require.LessOrEqual(t, proxy.Accepted(), 1+20*deaths)
	accepted := proxy.Accepted()
	require.Never(t, func() bool {
		for _, conn := range dead {
			if _, _, err := conn.Get(s.root); err == nil {
				return true
			}
		}
		return proxy.Accepted() != accepted || proxy.Connections() != 1
	}, time.Second, 20*time.Millisecond, "a dead session's connection dials, or answers")
	closed := time.Now()
	client.Close()
	require.Less(t, time.Since(closed), 5*time.Second)
	require.Equal(t, accepted, proxy.Accepted())
}

func TestWaiterWhoseSessionDiesJoinsAgain(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	rejoined := make(chan error, 10)
	opts := recipes.Options{Trace: &recipes.Trace{Rejoined: func(_ string, cause error) { rejoined <- cause }}}
	mortal := s.mortal(&opts)
	client := s.connect(opts)
	other := s.connect(recipes.Options{})
	hold := s.lock(s.mutex(other, "lock"))
	waiter := s.locking(s.ctx, s.mutex(client, "lock"))
	s.waiting("lock", 2)
	behind := s.locking(s.ctx, s.mutex(other, "lock"))
	s.waiting("lock", 3)

	mortal.expire()
	require.ErrorIs(t, await(s, rejoined), recipes.ErrSessionExpired)
	s.waiting("lock", 3)
	require.False(t, waiter.over())
	s.unlock(hold)
	next := behind.granted()
	require.False(t, waiter.over(), "it stands at the end of the line")
	s.unlock(next)
	s.unlock(waiter.granted())
}

func TestDeletedNodeEndsTheHold(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *env, path string) error{
		"deleted": func(s *env, path string) error { return s.zk.Delete(path, -1) },
		"overwritten": func(s *env, path string) error {
			_, err := s.zk.Set(path, []byte("mine"), -1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onThree(t)
			client := s.connect(recipes.Options{})
			hold, other := s.lock(s.mutex(client, "lock")), s.lock(s.mutex(client, "other"))
			require.NoError(t, spoil(s, hold.Path()))
			began := time.Now()
			err := s.done(hold)
			t.Logf("notified after %.2f T", time.Since(began).Seconds()/client.SessionTimeout().Seconds())
			require.ErrorIs(t, err, recipes.ErrLost)
			require.ErrorIs(t, err, recipes.ErrDeleted)
			require.ErrorIs(t, hold.Check(s.ctx), recipes.ErrLost)
			require.ErrorIs(t, hold.Unlock(s.ctx), recipes.ErrDeleted)
			s.waiting("lock", 0) // noLeader waits behind what was overwritten
			require.NoError(t, other.Check(s.ctx), "the session's other holds are none the worse")
			s.unlock(other)
		})
	}
}

func TestCheckNoticesADeletionImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	hold := s.lock(s.mutex(s.connect(recipes.Options{SessionTimeout: time.Minute}), "lock"))
	require.NoError(t, hold.Check(s.ctx))
	require.NoError(t, s.zk.Delete(hold.Path(), -1))
	require.ErrorIs(t, hold.Check(s.ctx), recipes.ErrDeleted)
	require.ErrorIs(t, s.done(hold), recipes.ErrDeleted)
}

func TestUnlockOfALostHoldSparesSuccessor(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{}
	mortal := s.mortal(&opts)
	hold := s.lock(s.mutex(s.connect(opts), "lock"))
	next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{}), "lock"))
	s.waiting("lock", 2)
	mortal.expire()
	successor := next.granted()
	require.ErrorIs(t, s.done(hold), recipes.ErrSessionExpired)
	for range 2 {
		err := hold.Unlock(s.ctx)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, err, recipes.ErrSessionExpired)
	}
	require.NoError(t, successor.Check(s.ctx))
	s.unlock(successor)
}

func TestCommitOfALostClaimChangesNothing(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{SessionTimeout: time.Minute}) // it hears of nothing by itself for 10 s
	hold := s.lock(s.mutex(client, "lock"))
	write := func(data string) []any {
		return []any{&zk.SetDataRequest{Path: s.root, Data: []byte(data), Version: -1}}
	}
	responses, err := hold.Commit(s.ctx, write("by the holder")...)
	require.NoError(t, err)
	require.Len(t, responses, 1)

	_, err = hold.Commit(s.ctx, append(write("half"), &zk.DeleteRequest{Path: s.path("missing"), Version: -1})...)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.NoError(t, hold.Err())

	require.NoError(t, s.zk.Delete(hold.Path(), -1))
	_, err = hold.Commit(s.ctx, write("too late")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
	require.ErrorIs(t, s.done(hold), recipes.ErrDeleted)
	data, _, err := s.zk.Get(s.root)
	require.NoError(t, err)
	require.Equal(t, "by the holder", string(data))
}

func TestClosingTheClientFreesItsLocksImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{SessionTimeout: time.Minute})
	other := s.connect(recipes.Options{SessionTimeout: time.Minute})
	var holds []*lock.Hold
	var next []*locking
	for i := range 3 {
		name := fmt.Sprint("lock-", i)
		holds = append(holds, s.lock(s.mutex(client, name)))
		next = append(next, s.locking(s.ctx, s.mutex(other, name)))
		s.waiting(name, 2)
	}
	blocked := s.lock(s.mutex(other, "blocked"))
	waiter := s.locking(s.ctx, s.mutex(client, "blocked"))
	s.waiting("blocked", 2)

	began := time.Now()
	client.Close()
	for i := range holds {
		require.ErrorIs(t, s.done(holds[i]), recipes.ErrClosed)
		s.unlock(next[i].granted())
	}
	require.Less(t, time.Since(began), 10*time.Second)
	_, err := waiter.result()
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = s.mutex(client, "blocked").Lock(s.ctx)
	require.ErrorIs(t, err, recipes.ErrClosed)
	s.waiting("blocked", 1)
	s.unlock(blocked)
}

func TestNegotiatedTimeoutIsVisible(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	var log bytes.Buffer // the client's until it is closed
	granted := make(chan time.Duration, 1)
	client := s.connect(recipes.Options{
		SessionTimeout: time.Hour,
		Logger:         slog.New(slog.NewTextHandler(&log, nil)),
		Trace:          &recipes.Trace{SessionOpened: func(_ int64, _ string, timeout time.Duration) { granted <- timeout }},
	})
	require.Equal(t, time.Minute, client.SessionTimeout())
	require.Equal(t, time.Minute, await(s, granted))
	client.Close()
	require.Regexp(t, `level=WARN .*requested=1h0m0s granted=1m0s`, log.String())
}

// A server notifies a process that comes back after its session has expired.
func TestHolderOfAnEndedSessionIsNotifiedImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{SessionTimeout: time.Minute}
	mortal := s.mortal(&opts)
	hold := s.lock(s.mutex(s.connect(opts), "lock"))
	ctx, cancel := hold.Context(s.ctx)
	defer cancel()
	mortal.expire()
	require.ErrorIs(t, s.done(hold), recipes.ErrSessionExpired)
	await(s, ctx.Done())
	require.Equal(t, hold.Err(), context.Cause(ctx))
}

// behindProxies connects a client that knows a proxy before each server.
func (s *env) behindProxies(opts recipes.Options) (*recipes.Client, []*docker.Proxy) {
	s.t.Helper()
	var proxies []*docker.Proxy
	var addrs []string
	for _, server := range s.ensemble.Servers() {
		p := s.proxy(server)
		proxies = append(proxies, p)
		addrs = append(addrs, p.Addr())
	}
	return s.connect(opts, addrs...), proxies
}

func TestLockOutlivesManyConnections(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client, proxies := s.behindProxies(recipes.Options{})
	hold := s.lock(s.mutex(client, "lock"))
	next := s.locking(s.ctx, s.mutex(client, "lock"))
	s.waiting("lock", 2)
	for range 10 {
		for _, p := range proxies {
			p.Reset()
		}
		require.NoError(t, hold.Check(s.ctx))
	}
	require.False(t, next.over())
	s.unlock(hold)
	s.unlock(next.granted())
}

// The ZooKeeper client would wait for 6.67 T for the first of them.
func TestServersThatAcceptAndNeverAnswerDoNotCostTheHold(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client, proxies := s.behindProxies(recipes.Options{})
	hold := s.lock(s.mutex(client, "lock"))
	session := client.SessionID()
	for range 3 {
		var serving *docker.Proxy
		for _, p := range proxies {
			if p.Connections() == 0 {
				p.Hang()
			} else {
				serving = p
			}
		}
		serving.Reset()
		require.NoError(t, hold.Check(s.ctx))
		for _, p := range proxies {
			p.Heal()
		}
	}
	require.NoError(t, hold.Err())
	require.Equal(t, session, client.SessionID())
	s.unlock(hold)
}
