// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// own is this library.
type own struct{}

func (own) Connect(ctx context.Context, spec *Spec) (Client, error) {
	client, err := recipes.Connect(ctx, spec.Servers, &recipes.Options{
		SessionTimeout: time.Duration(spec.Timeout), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return &ownClient{client, spec.Name}, nil
}

func (own) Offers(string) bool { return true }

func (own) Why(err error) string {
	for _, known := range []struct {
		is  error
		say string
	}{
		{recipes.ErrLost, lostBefore},
		{recipes.ErrUncertain, uncertain},
		{recipes.ErrClosed, shut},
		{context.DeadlineExceeded, timedOut}, // which names the holder, too
		{lock.ErrLocked, heldByAnother},
	} {
		if errors.Is(err, known.is) {
			return known.say
		}
	}
	return err.Error()
}

type ownClient struct {
	client *recipes.Client
	name   string
}

func (c *ownClient) Close() { c.client.Close() }

func (c *ownClient) Acquire(ctx context.Context, how, path string) (Hold, error) {
	if how == "campaign" {
		e, err := election.New(c.client, path, &election.Options{ID: c.name})
		if err != nil {
			return nil, err
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return ownHold{term.Claim, c.client, term.Resign}, nil
	}
	m, err := lock.New(c.client, path, &lock.Options{Owner: c.name})
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
	return ownHold{hold.Claim, c.client, hold.Unlock}, nil
}

// ownHold is what a lock's hold and an election's term have in common.
type ownHold struct {
	claim  *recipes.Claim
	client *recipes.Client
	giveUp func(context.Context) error
}

func (h ownHold) Done() <-chan struct{}            { return h.claim.Done() }
func (h ownHold) Deadline() time.Time              { return h.claim.Deadline() }
func (h ownHold) GiveUp(ctx context.Context) error { return h.giveUp(ctx) }

func (h ownHold) Grant() history.Event {
	granted := history.Event{Node: h.claim.Path(), Token: history.ID(h.claim.Token())}
	// The client's newest session is that of the claim as long as the claim has not ended.
	if session := h.client.SessionID(); h.claim.Err() == nil {
		granted.Session = history.ID(session)
	}
	return granted
}

func (h ownHold) Cause() history.Cause {
	err := h.claim.Err()
	for cause, is := range map[history.Cause]error{
		history.Expired: recipes.ErrSessionExpired, history.Deadline: recipes.ErrDeadline, history.Removed: recipes.ErrDeleted,
		history.GivenUp: recipes.ErrReleased, history.ClientShut: recipes.ErrClosed,
	} {
		if errors.Is(err, is) {
			return cause
		}
	}
	return history.Cause(fmt.Sprint(err))
}
