// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// The sessions of these tests have a lease that no server has granted. They last until the first renewal is due.
func TestSessionWithUnknownKeyIsReplacedAndItsClientKept(t *testing.T) {
	t.Parallel()
	addr, _ := outage(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: time.Minute})
	require.NoError(t, err)
	c := &etcdClient{client: client, ttl: time.Second}
	session, err := concurrency.NewSession(client, concurrency.WithLease(1), concurrency.WithTTL(1))
	require.NoError(t, err)
	c.session = session

	for _, why := range []string{"its key may be in the queue", "no session was opened in time"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = c.Acquire(ctx, "lock", "/a")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorAs(t, err, new(*worker.BrokenError), why)
		require.Nil(t, c.session, why)
	}
	<-session.Done()

	_, err = c.Acquire(t.Context(), "lock", "/a")
	require.ErrorAs(t, err, new(*worker.BrokenError), "no session can be opened")
	c.Close()
	require.Error(t, client.Ctx().Err())
}

func TestHoldWhoseKeyWasNotDeletedLeavesItsSession(t *testing.T) {
	t.Parallel()
	addr, _ := outage(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: time.Minute})
	require.NoError(t, err)
	c := &etcdClient{client: client, ttl: time.Second}
	c.session, err = concurrency.NewSession(client, concurrency.WithLease(1), concurrency.WithTTL(1))
	require.NoError(t, err)
	held := func() *etcdHold {
		h := &etcdHold{claim: newClaim(), client: c, session: c.session, mutex: concurrency.NewMutex(c.session, "/a")}
		c.last = h.claim
		return h
	}

	h := held()
	require.Error(t, h.Release(t.Context()))
	<-h.Done()
	require.Equal(t, history.GivenUp, h.Cause())
	require.Nil(t, c.session)

	c.session, err = concurrency.NewSession(client, concurrency.WithLease(2), concurrency.WithTTL(1))
	require.NoError(t, err)
	h = held()
	c.Close()
	<-h.Done()
	require.Equal(t, history.ClientShut, h.Cause())
	require.Equal(t, c.ended, h.Release(t.Context()), "the result of the client's release")
}
