// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An ensemble is what the ensembles of zktest and docker have in common, with servers of type S.
// It keeps the two packages alike; a test does not need it, and names one of them.
type ensemble[S server] interface {
	Addrs() []string
	Servers() []S
	Server(id int) S // counted from 1
	Leader(ctx context.Context) (S, error)
	Followers(ctx context.Context) ([]S, error)
	WaitServing(ctx context.Context) error
	Expire(ctx context.Context, session int64) error
	Close() error
}

// A server is what the servers of zktest and docker have in common.
type server interface {
	comparable
	ID() int
	Addr() string
	Mode(ctx context.Context) (string, error)
	WaitServing(ctx context.Context) error

	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	Partition(ctx context.Context) error
	Isolate(ctx context.Context) error
	Heal(ctx context.Context) error
}

func requireAlike[S server, E ensemble[S], O any](func(context.Context, *O) (E, error)) {}

func TestSameTestRunsOnEitherKindOfServers(t *testing.T) {
	t.Parallel()
	requireAlike(zktest.Run)
	requireAlike(docker.Run)
	t.Run("zktest", func(t *testing.T) {
		t.Parallel()
		lockChangesHands(t, zktest.Start(t, &zktest.Options{Servers: 3, Tick: 200 * time.Millisecond}))
	})
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		lockChangesHands(t, broken.lend(t))
	})
}

// lockChangesHands injects each fault of a server into the only server that a lock's holder knows,
// and then expires a holder's session.
func lockChangesHands[S server](t *testing.T, e ensemble[S]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*recipetest.Patience)
	defer cancel()
	for _, fault := range []struct {
		name       string
		leads      bool // the holder's server
		begin, end func(S, context.Context) error
	}{
		{"follower is partitioned", false, S.Partition, S.Heal},
		{"leader is partitioned", true, S.Partition, S.Heal},
		{"follower is isolated", false, S.Isolate, S.Heal},
		{"leader is isolated", true, S.Isolate, S.Heal},
		{"leader is paused", true, S.Pause, S.Unpause},
		{"leader is killed", true, S.Kill, S.Start},
	} {
		require.NoError(t, e.WaitServing(ctx))
		holders, err := e.Leader(ctx)
		require.NoError(t, err)
		if !fault.leads {
			followers, err := e.Followers(ctx)
			require.NoError(t, err)
			holders = followers[0]
		}
		var others []string
		for _, s := range e.Servers() {
			require.Equal(t, s, e.Server(s.ID()))
			if s != holders {
				others = append(others, s.Addr())
			}
		}
		h := hand(ctx, t, []string{holders.Addr()}, others)
		began := time.Now()
		require.NoError(t, fault.begin(holders, ctx), fault.name)
		cause := h.over(ctx, t)
		require.ErrorIs(t, cause, recipes.ErrDeadline, fault.name)
		t.Logf("%s: the next holder holds after %v", fault.name, time.Since(began).Round(10*time.Millisecond))
		require.NoError(t, fault.end(holders, ctx), fault.name)
		h.close()
	}

	require.NoError(t, e.WaitServing(ctx))
	h := hand(ctx, t, e.Addrs(), e.Addrs())
	session := h.holder.SessionID()
	require.NoError(t, e.Expire(ctx, session))
	require.ErrorIs(t, h.over(ctx, t), recipes.ErrSessionExpired)
	require.Error(t, e.Expire(ctx, session), "it is over")
	h.close()
}

// A handover is a lock with a holder and a waiter.
type handover struct {
	holder, waiter *recipes.Client
	hold           *lock.Hold
	next           chan *lock.Hold
	failed         chan error
}

// hand begins a handover.
func hand(ctx context.Context, t *testing.T, holders, waiters []string) *handover {
	t.Helper()
	h := &handover{next: make(chan *lock.Hold, 1), failed: make(chan error, 1)}
	connect := func(addrs []string) (*recipes.Client, *lock.Mutex) {
		client, err := recipes.Connect(ctx, addrs, &recipes.Options{SessionTimeout: 4 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		mu, err := lock.New(client, "/either", nil)
		require.NoError(t, err)
		return client, mu
	}
	var first, second *lock.Mutex
	h.holder, first = connect(holders)
	h.waiter, second = connect(waiters)
	var err error
	h.hold, err = first.Lock(ctx)
	require.NoError(t, err)
	go func() { // ends before over returns
		next, err := second.Lock(ctx)
		h.next <- next
		h.failed <- err
	}()
	return h
}

// over waits until the holder has lost the lock and the waiter holds it. It releases the lock, and
// returns the cause of the loss.
func (h *handover) over(ctx context.Context, t *testing.T) error {
	t.Helper()
	next := <-h.next
	require.NoError(t, <-h.failed)
	select {
	case <-h.hold.Done():
	case <-ctx.Done():
		require.Fail(t, "the holder was not notified")
	}
	require.Greater(t, next.Token(), h.hold.Token())
	require.NoError(t, next.Unlock(ctx))
	return h.hold.Err()
}

func (h *handover) close() {
	h.holder.Close()
	h.waiter.Close()
}
