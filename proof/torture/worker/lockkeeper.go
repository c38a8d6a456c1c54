// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lockkeeper adapts this library to Library.
type lockkeeper struct{}

func (lockkeeper) Connect(ctx context.Context, spec *Spec) (Client, error) {
	client, err := connect(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &lockkeeperClient{client: client, name: spec.Name, priority: priorityOf(spec.Seed)}, nil
}

// connect connects a client of the process.
func connect(ctx context.Context, spec *Spec) (*recipes.Client, error) {
	return recipes.Connect(ctx, spec.Servers, &recipes.Options{
		SessionTimeout: time.Duration(spec.Timeout), Logger: slog.New(slog.DiscardHandler),
	})
}

func (lockkeeper) Supports(string) bool { return true }

func (lockkeeper) Reason(err error) string {
	for _, known := range []struct {
		is     error
		report string
	}{
		{recipes.ErrRevoked, attempt.Revoked},
		{recipes.ErrLost, attempt.LostBefore},
		{recipes.ErrUncertain, attempt.Uncertain},
		{recipes.ErrClosed, attempt.Shut},
		{context.DeadlineExceeded, attempt.TimedOut}, // the error names the holder, too
		{lock.ErrLocked, attempt.HeldByAnother},
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

// Session returns the session of the client, 0 if it has none.
func (c *lockkeeperClient) Session() history.ID { return history.ID(c.client.SessionID()) }

// Outstanding returns how many nodes of the client may exist.
func (c *lockkeeperClient) Outstanding() int { return c.client.OutstandingNodes() }

func (c *lockkeeperClient) Acquire(ctx context.Context, how, path string) (Hold, error) {
	return kinds[how].acquire(c, ctx, path)
}

// A kind is a kind of operation, as this library carries it out.
type kind struct {
	acquire func(c *lockkeeperClient, ctx context.Context, path string) (Hold, error)
	shares  bool                                                // its holds do not exclude each other
	then    func(a *workloadClient, p part, hold time.Duration) // what follows the work, before the release; nil for nothing
}

// kinds contains the kinds of operations by name. Each file of a recipe adds its own.
var kinds = map[string]kind{}

func init() {
	kinds["lock"], kinds["try"] = kind{acquire: locking((*lock.Mutex).Lock)}, kind{acquire: locking((*lock.Mutex).TryLock)}
}

// locking returns a function that acquires a mutex.
func locking(take func(*lock.Mutex, context.Context) (*lock.Hold, error)) func(*lockkeeperClient, context.Context, string) (Hold, error) {
	return func(c *lockkeeperClient, ctx context.Context, path string) (Hold, error) {
		m, err := lock.New(c.client, path, &lock.Options{Owner: c.name, LockDelay: c.lockDelay(path), Fence: c.fenceOf(path)})
		if err != nil {
			return nil, err
		}
		return c.holdOf(take(m, ctx))
	}
}

// holdOf returns the hold of this client, if err is nil.
func (c *lockkeeperClient) holdOf(hold *lock.Hold, err error) (Hold, error) {
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

// priorityOf returns the priority of a process's candidates. Half of the processes have none.
func priorityOf(seed uint64) int { return max(0, int(seed%4)-1) }
