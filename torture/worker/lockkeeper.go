// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lockkeeper adapts this library to Library.
type lockkeeper struct{}

func (lockkeeper) Connect(ctx context.Context, spec *Spec) (Client, error) {
	client, err := recipes.Connect(ctx, spec.Servers, &recipes.Options{
		SessionTimeout: time.Duration(spec.Timeout), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return &lockkeeperClient{client: client, name: spec.Name, priority: priorityOf(spec.Seed)}, nil
}

func (lockkeeper) Supports(string) bool { return true }

func (lockkeeper) Reason(err error) string {
	for _, known := range []struct {
		is     error
		report string
	}{
		{recipes.ErrRevoked, revoked},
		{recipes.ErrLost, lostBefore},
		{recipes.ErrUncertain, uncertain},
		{recipes.ErrClosed, shut},
		{context.DeadlineExceeded, timedOut}, // the error names the holder, too
		{lock.ErrLocked, heldByAnother},
	} {
		if errors.Is(err, known.is) {
			return known.report
		}
	}
	return err.Error()
}

type lockkeeperClient struct {
	client   *recipes.Client
	name     string
	priority int // of its candidates
	takeover
}

func (c *lockkeeperClient) Close() { c.client.Close() }

func (c *lockkeeperClient) Acquire(ctx context.Context, how, path string) (Hold, error) {
	if how == "campaign" {
		return c.campaign(ctx, path)
	}
	switch {
	case how == read || how == write || how == downgrade:
		return c.acquireReadWrite(ctx, how, path)
	case how == tryAcquire || strings.HasPrefix(how, acquire):
		return c.acquirePermits(ctx, how, path)
	case how == nested:
		return c.acquireNested(ctx, path)
	}
	m, err := lock.New(c.client, path, &lock.Options{Owner: c.name, LockDelay: c.lockDelay(path), Fence: c.fenceOf(path)})
	if err != nil {
		return nil, err
	}
	take := m.Lock
	if how == "try" {
		take = m.TryLock
	}
	hold, err := take(ctx)
	if err != nil {
		return nil, err
	}
	return lockkeeperHold{hold.Claim, c.client, hold.Unlock}, nil
}

// lockkeeperHold is a lock's hold or an election's term.
type lockkeeperHold struct {
	claim   *recipes.Claim
	client  *recipes.Client
	release func(context.Context) error
}

func (h lockkeeperHold) Done() <-chan struct{}             { return h.claim.Done() }
func (h lockkeeperHold) Deadline() time.Time               { return h.claim.Deadline() }
func (h lockkeeperHold) Release(ctx context.Context) error { return h.release(ctx) }

func (h lockkeeperHold) Grant() history.Event {
	granted := history.Event{Node: h.claim.Path(), Token: history.ID(h.claim.Token()), Shared: h.claim.Shared()}
	// While the claim has not ended, the client's newest session is the claim's.
	if session := h.client.SessionID(); h.claim.Err() == nil {
		granted.Session = history.ID(session)
	}
	return granted
}

func (h lockkeeperHold) Cause() history.Cause {
	return causeOf(h.claim.Err())
}

// causeOf returns the cause of the end of a hold by its error.
func causeOf(err error) history.Cause {
	for cause, is := range map[history.Cause]error{
		history.Expired: recipes.ErrSessionExpired, history.Deadline: recipes.ErrDeadline, history.Removed: recipes.ErrDeleted,
		history.GivenUp: recipes.ErrReleased, history.ClientShut: recipes.ErrClosed, history.Revoked: recipes.ErrRevoked,
	} {
		if errors.Is(err, is) {
			return cause
		}
	}
	return history.Cause(fmt.Sprint(err))
}
