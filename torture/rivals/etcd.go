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

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// etcdMutex is etcd's concurrency.Mutex, in a session whose lease has the time to live T. The holder is notified by the
// session: "Done returns a channel that closes when the lease is orphaned, expires, or is otherwise no longer being
// refreshed" (https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done). The token is the create revision of the
// key, the one that IsOwner compares; etcd's own advice is to have the resource check it
// (https://etcd.io/docs/v3.5/learning/why/#notes-on-the-usage-of-lock-and-lease).
//
// A Lock that is cancelled while it waits takes its key back by itself, and its session goes on. One that failed before it
// was answered may have left its key in line, for as long as the session lives: the session is closed then, and another one
// made in its place.
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
		// "the keep-alive probe": without it a connection through which nothing comes is not given up. gRPC allows no less.
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
	session *concurrency.Session // nil: the next Acquire makes one
	last    *claim               // the last that was granted
	waiting sync.WaitGroup       // for the ends of holds, and of sessions

	closing sync.Once
	closed  bool
	ended   error // what the end of the session came to; valid when closed
}

// open sees to it that there is a session.
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

// leave closes the session, and what it may have in line with it, while others are made: Close waits for that. It is over
// after T at most, as what cannot be revoked by then has expired.
func (c *etcdClient) leave() {
	session := c.session
	c.session = nil
	c.waiting.Go(func() { _ = session.Close() })
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
		c.closed = true
		if c.last != nil {
			c.last.end(history.ClientShut)
		}
		if c.session != nil {
			c.ended = c.session.Close() // what cannot be revoked expires
		}
		c.waiting.Wait()
		_ = c.client.Close() // nothing is asked for any more
	})
}

// takenBack is the key of a Mutex whose Unlock has deleted it, which is all that tells of that when Lock has called it:
// after a Lock that failed otherwise it is the key that may or may not stand in line.
const takenBack = "\x00"

func (c *etcdClient) Acquire(ctx context.Context, how, path string) (worker.Hold, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	session := c.session
	mutex := concurrency.NewMutex(session, path)
	// "In order to prevent a watch stream being stuck in a partitioned node, make sure to wrap context with WithRequireLeader",
	// says Watcher; and a watch is what Lock waits with.
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
		if mutex.Key() != takenBack || session.Ctx().Err() != nil {
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
		revision: (*etcdserverpb.Compare)(&owner).GetCreateRevision(),
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

// Release deletes the key. When that fails, the end of the session is what remains.
func (h *etcdHold) Release(ctx context.Context) error {
	if h.client.closed {
		return h.client.ended
	}
	h.giving.Store(true)
	ctx, cancel := context.WithTimeout(ctx, h.client.ttl)
	defer cancel()
	err := h.mutex.Unlock(ctx)
	h.end(history.GivenUp)
	if err != nil && h.client.session == h.session {
		h.client.leave()
	}
	return err
}
