// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// service adapts the client of the lock service to Library. Its clients know all replicas, and begin with different ones.
type service struct{ clients atomic.Uint32 }

// LeaseTTL returns the TTL of the leases of a worker, for a session timeout: less than that, so that the bounds for holders with a
// session apply to holders of a lease, too.
func LeaseTTL(timeout time.Duration) time.Duration { return timeout * 3 / 4 }

func (s *service) Connect(_ context.Context, spec *Spec) (Client, error) {
	n := int(s.clients.Add(1))
	first := n % len(spec.Service)
	c, err := client.New(strings.Join(slices.Concat(spec.Service[first:], spec.Service[:first]), ","), &client.Options{
		Owner: fmt.Sprintf("%s/%d", spec.Name, n), TTL: LeaseTTL(time.Duration(spec.Timeout)),
		Bearer: func() (string, error) { return spec.Bearer, nil },
	})
	if err != nil {
		return nil, err
	}
	return &serviceClient{client: c, name: spec.Name}, nil
}

func (*service) Supports(string) bool { return true }

func (*service) Reason(err error) string {
	for _, known := range []struct {
		is     error
		report string
	}{
		{client.LockRevoked, attempt.Revoked},
		{client.ErrLost, attempt.LostBefore},
		{client.ErrUncertain, attempt.Uncertain},
		{client.ErrClosed, attempt.Shut},
		{context.DeadlineExceeded, attempt.TimedOut}, // the error names the holder, too
		{client.LockAlreadyHeld, attempt.HeldByAnother},
	} {
		if errors.Is(err, known.is) {
			return known.report
		}
	}
	return err.Error()
}

type serviceClient struct {
	client *client.Client
	name   string
	locks  atomic.Uint32
}

// Close releases what is left. A release that no replica confirms leaves a lease that expires.
func (c *serviceClient) Close() { _ = c.client.Close() }

// Acquire uses the service's namespace and key of a path <root>/<namespace>/<key>. Every fourth lock is taken with Do.
func (c *serviceClient) Acquire(ctx context.Context, how, at string) (Hold, error) {
	namespace, key := path.Base(path.Dir(at)), path.Base(at)
	var got *client.Hold
	var err error
	switch {
	case how == "campaign":
		got, err = c.client.Campaign(ctx, namespace, key, c.name)
	case how == "try":
		got, err = c.client.TryLock(ctx, namespace, key)
	case c.locks.Add(1)%4 == 0:
		return c.do(ctx, namespace, key)
	default:
		got, err = c.client.Lock(ctx, namespace, key)
	}
	if err != nil {
		return nil, err
	}
	return serviceHold{got, got.Unlock}, nil
}

// do takes the lock with Do, which runs until the release.
func (c *serviceClient) do(ctx context.Context, namespace, key string) (Hold, error) {
	granted, release, result := make(chan *client.Hold, 1), make(chan struct{}), make(chan error, 1)
	go func() { // Release waits for it, and so does do unless there is a hold
		result <- c.client.Do(ctx, namespace, key, func(_ context.Context, hold *client.Hold) error {
			granted <- hold
			<-release
			return nil
		})
	}()
	select {
	case hold := <-granted:
		return serviceHold{hold, func(context.Context) error {
			close(release)
			return <-result
		}}, nil
	case err := <-result:
		return nil, err
	}
}

// serviceHold is a lease, as its holder sees it.
type serviceHold struct {
	hold    *client.Hold
	release func(context.Context) error
}

func (h serviceHold) Grant() history.Event              { return history.Event{Token: history.ID(h.hold.Token())} }
func (h serviceHold) Done() <-chan struct{}             { return h.hold.Done() }
func (h serviceHold) Release(ctx context.Context) error { return h.release(ctx) }

// Deadline returns the end of the lease's validity, which the history compares with its TTL. Done is closed earlier.
func (h serviceHold) Deadline() time.Time { return h.hold.ValidUntil() }

func (h serviceHold) Cause() history.Cause {
	err := h.hold.Err()
	for cause, is := range map[history.Cause]error{
		history.Validity: client.ErrDeadline, history.Revoked: client.LockRevoked, history.Removed: client.LockExpired,
		history.GivenUp: client.ErrReleased,
	} {
		if errors.Is(err, is) {
			return cause
		}
	}
	return history.Cause(fmt.Sprint(err))
}
