// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
)

// event is one entry of a history.
type event struct {
	Time         time.Time `json:"time" doc:"By the clock of the replica. Entries are ordered by fencing token"`
	Action       string    `json:"action" enum:"acquired,revoked,force-released" doc:"revoked: a forced release in mode safe"`
	FencingToken string    `json:"fencingToken" doc:"Of the holder"`
	OwnerID      string    `json:"ownerId,omitempty" doc:"That acquired the lock"`
	By           string    `json:"by,omitempty" doc:"Principal that released the lock by force"`
	Reason       string    `json:"reason,omitempty" doc:"Of the forced release"`
}

// past is the history of a lock.
type past struct {
	LockKey string  `json:"lockKey"`
	History []event `json:"history" doc:"The newest first, at most 16: of all replicas, but not of clients of the library"`
}

func (a *API) registerHistory() {
	register(a, operation{
		name: "history", method: http.MethodGet, path: "/v1/locks/{namespace}/{key}/history",
		summary: "Read who acquired a lock last, and who released it by force", answers: map[int]any{200: past{}},
	}, func(ctx context.Context, c *call, _ *statusRequest) (*answer, error) {
		ctx, cancel := bound(ctx, 0)
		defer cancel()
		entries, err := a.History.List(ctx, c.namespace, c.key)
		if err != nil {
			return nil, err
		}
		out := &past{LockKey: c.key, History: make([]event, 0, len(entries))}
		for _, e := range entries {
			out.History = append(out.History, event{
				Time: e.Time, Action: e.Action, FencingToken: e.Token.String(), OwnerID: e.Owner, By: e.By, Reason: e.Reason,
			})
		}
		return &answer{Status: http.StatusOK, Body: out}, nil
	})
}

// noteForced adds a forced release to the history of a lock.
func (a *API) noteForced(c *call, f lease.Force, done lease.Forced) {
	e := history.Entry{Time: time.Now(), Action: history.ForceReleased, Token: done.Token, By: f.By, Reason: f.Reason}
	if done.Notified {
		e.Action = history.Revoked
	}
	a.History.Add(c.namespace, c.key, e)
}
