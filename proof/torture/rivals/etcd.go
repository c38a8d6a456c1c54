// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// etcdMutex is etcd's concurrency.Mutex, in a session whose lease has the time to live T. The holder is notified by the
// session: "Done returns a channel that closes when the lease is orphaned, expires, or is otherwise no longer being
// refreshed" (https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done). The token is the create revision of the
// key, the one that IsOwner compares; etcd's own advice is to have the resource check it
// (https://etcd.io/docs/v3.5/learning/why/#notes-on-the-usage-of-lock-and-lease).
//
// A Lock that is cancelled while it waits deletes its key itself, and its session continues. A Lock that failed before its
// request was answered may have left its key in the queue until the session ends: the client then closes the session and
// opens another one.
type etcdMutex struct{}

func (etcdMutex) Supports(how string) bool { return how != "campaign" }
func (etcdMutex) Reason(err error) string {
	if errors.Is(err, concurrency.ErrSessionExpired) {
		return concurrency.ErrSessionExpired.Error()
	}
	return why(err)
}

func (etcdMutex) Connect(ctx context.Context, spec *worker.Spec) (worker.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: spec.Servers, DialTimeout: time.Duration(spec.Timeout), Logger: zap.NewNop(),
		// Without "the keep-alive probe", the client keeps a connection that delivers nothing. gRPC allows no shorter time.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Duration(spec.Timeout) / 2,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	c := &etcdClient{client: client, ttl: time.Duration(spec.Timeout)}
	if c.session, err = c.newSession(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return c, nil
}

type etcdClient struct {
	client  *clientv3.Client
	ttl     time.Duration
	session *concurrency.Session // nil: the next Acquire opens one
	last    *claim               // the last one that was granted
	waiting sync.WaitGroup       // for the ends of holds and of sessions

	closing sync.Once
	closed  bool
	ended   error // of the session's Close; valid when closed
}

// open opens a session if there is none.
func (c *etcdClient) open(ctx context.Context) error {
	if c.session != nil {
		select {
		case <-c.session.Done():
			c.leave()
		default:
			return nil
		}
	}
	bound, cancel := context.WithTimeout(ctx, c.ttl)
	defer cancel()
	session, err := c.newSession(bound)
	switch {
	case err == nil:
		c.session = session
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &worker.BrokenError{Err: err}
}

// leave closes the session in the background, and with it the keys that it may have in the queue. Close waits for that. It
// takes T at most: a lease that cannot be revoked expires by then.
func (c *etcdClient) leave() {
	session := c.session
	c.session = nil
	c.waiting.Go(func() { _ = session.Close() })
}

// newSession opens a session. ctx bounds only the call; with concurrency.WithContext it would bound the session.
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
		c.closed = true
		if c.last != nil {
			c.last.end(history.ClientShut)
		}
		if c.session != nil {
			c.ended = c.session.Close() // a lease that cannot be revoked expires
		}
		c.waiting.Wait()
		_ = c.client.Close() // no request follows
	})
}

// deletedKey is the Key of a Mutex after its Unlock has deleted the key, which a failed Lock may have done itself. After any
// other failed Lock, Key returns a key that may be in the queue.
const deletedKey = "\x00"

func (c *etcdClient) Acquire(ctx context.Context, how, path string) (worker.Hold, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	session := c.session
	mutex := concurrency.NewMutex(session, path)
	// "In order to prevent a watch stream being stuck in a partitioned node, make sure to wrap context with WithRequireLeader",
	// is the documentation of Watcher, and Lock waits with a watch.
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(session.Ctx(), func() { cancel(concurrency.ErrSessionExpired) })
	defer stop()
	take := mutex.Lock
	if how == "try" {
		take = mutex.TryLock
	}
	switch err := take(ctx); {
	case errors.Is(err, concurrency.ErrLocked):
		return nil, worker.ErrHeld
	case err != nil:
		if mutex.Key() != deletedKey || session.Ctx().Err() != nil {
			c.leave()
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	owner := mutex.IsOwner()
	h := &etcdHold{
		claim: newClaim(), client: c, session: session, mutex: mutex,
		revision: owner.GetCompare().GetCreateRevision(),
	}
	c.last = h.claim
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
	session  *concurrency.Session
	mutex    *concurrency.Mutex
	revision int64
}

func (h *etcdHold) Grant() history.Event { return history.Event{Token: history.ID(h.revision)} }

// Release deletes the key. If that fails, it closes the session, which deletes the key.
func (h *etcdHold) Release(ctx context.Context) error {
	if h.client.closed {
		return h.client.ended
	}
	h.releasing.Store(true)
	ctx, cancel := context.WithTimeout(ctx, h.client.ttl)
	defer cancel()
	err := h.mutex.Unlock(ctx)
	h.end(history.GivenUp)
	if err != nil && h.client.session == h.session {
		h.client.leave()
	}
	return err
}
