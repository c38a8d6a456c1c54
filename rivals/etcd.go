// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// etcdMutex is etcd's concurrency.Mutex, in a session whose lease has the time to live T. The holder is told by the
// session: "Done returns a channel that closes when the lease is orphaned, expires, or is otherwise no longer being
// refreshed" (https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done). The token is the create revision of the
// key, the one that IsOwner compares; etcd's own advice is to have the resource check it
// (https://etcd.io/docs/v3.5/learning/why/#notes-on-the-usage-of-lock-and-lease).
//
// A Lock that failed before it was answered may have left its key in line, for as long as the session lives: the session
// is closed then.
type etcdMutex struct{}

func (etcdMutex) Offers(how string) bool { return how != "campaign" }
func (etcdMutex) Why(err error) string {
	if errors.Is(err, concurrency.ErrSessionExpired) {
		return concurrency.ErrSessionExpired.Error()
	}
	return why(err)
}

func (etcdMutex) Connect(ctx context.Context, part *torture.Part) (torture.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: part.Servers, DialTimeout: time.Duration(part.Timeout), Logger: zap.NewNop(),
		// "the keep-alive probe": without it a connection through which nothing comes is not given up. gRPC allows no less.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Duration(part.Timeout) / 2,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	c := &etcdClient{client: client, ttl: time.Duration(part.Timeout)}
	if c.session, err = c.newSession(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return c, nil
}

type etcdClient struct {
	client  *clientv3.Client
	ttl     time.Duration
	session *concurrency.Session
	held    *claim // the last
	closing sync.Once
	waiting sync.WaitGroup // for the ends of holds
}

// newSession is bound by ctx while it is made, and not afterwards: WithContext would bind its life.
func (c *etcdClient) newSession(ctx context.Context) (*concurrency.Session, error) {
	lease, err := c.client.Grant(ctx, int64(c.ttl/time.Second))
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	session, err := concurrency.NewSession(c.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(c.ttl/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return session, nil
}

func (c *etcdClient) Close() {
	c.closing.Do(func() {
		if c.held != nil {
			c.held.end(history.ClientShut)
		}
		_ = c.session.Close() // what cannot be revoked expires
		c.waiting.Wait()
		_ = c.client.Close() // nothing is asked for any more
	})
}

func (c *etcdClient) Acquire(ctx context.Context, how, path string) (torture.Hold, error) {
	mutex := concurrency.NewMutex(c.session, path)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.session.Ctx(), func() { cancel(concurrency.ErrSessionExpired) })
	defer stop()
	take := mutex.Lock
	if how == "try" {
		take = mutex.TryLock
	}
	switch err := take(ctx); {
	case errors.Is(err, concurrency.ErrLocked):
		return nil, torture.ErrHeld
	case err != nil:
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &torture.BrokenError{Err: err}
	}
	owner := mutex.IsOwner()
	h := &etcdHold{claim: newClaim(), client: c, mutex: mutex, revision: (*etcdserverpb.Compare)(&owner).GetCreateRevision()}
	c.held = h.claim
	session := c.session
	c.waiting.Go(func() {
		select {
		case <-session.Done():
			h.end(history.Expired)
		case <-h.done:
		}
	})
	return h, nil
}

type etcdHold struct {
	*claim
	client   *etcdClient
	mutex    *concurrency.Mutex
	revision int64
}

func (h *etcdHold) Grant() history.Event { return history.Event{Token: history.ID(h.revision)} }

func (h *etcdHold) GiveUp(ctx context.Context) error {
	h.giving.Store(true)
	ctx, cancel := context.WithTimeout(ctx, h.client.ttl)
	defer cancel()
	err := h.mutex.Unlock(ctx)
	if err != nil {
		h.client.Close()
	}
	h.end(history.GivenUp)
	return err
}
